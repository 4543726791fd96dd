// SPDX-License-Identifier: Apache-2.0
#include "check/check_json.hpp"

#include "base/json_dump.hpp"
#include "base/printable.hpp"
#include "check/link_ports.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>

namespace muster::check {
namespace {

using Json = nlohmann::ordered_json;

Json parse(std::string_view text) {
  return Json::parse(text, nullptr, false);
}

const Json& field(const Json& object, const char* name) {
  static const Json kNone;
  if (!object.is_object()) {
    return kNone;
  }
  const auto at = object.find(name);
  return at == object.end() ? kNone : *at;
}

std::optional<double> number(const Json& object, const char* name) {
  const Json& value = field(object, name);
  const double out = value.is_number() ? value.get<double>() : NAN;
  return std::isfinite(out) ? std::optional(out) : std::nullopt;
}

int whole(const Json& object, const char* name, int otherwise) {
  const double value = number(object, name).value_or(otherwise);
  return std::abs(value) < INT32_MAX ? static_cast<int>(value) : otherwise;
}

bool flag(const Json& object, const char* name) {
  const Json& value = field(object, name);
  return value.is_boolean() && value.get<bool>();
}

std::string text(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>(), kCheckTextMax) : std::string();
}

std::vector<std::string> texts(const Json& list) {
  std::vector<std::string> out;
  for (const Json& one : list.is_array() ? list : Json::array()) {
    if (out.size() < kCheckTextsMax) {
      out.push_back(text(one));
    }
  }
  return out;
}

Json json_of(const std::vector<LinkFigures>& links) {
  Json out = Json::array();
  for (const LinkFigures& link : links) {
    out.push_back({{"to", link.to}, {"latency", link.latency}, {"bandwidth", link.bandwidth}});
  }
  return out;
}

std::vector<LinkFigures> links_of(const Json& list) {
  std::vector<LinkFigures> out;
  for (const Json& one : list.is_array() ? list : Json::array()) {
    const auto latency = number(one, "latency");
    const auto bandwidth = number(one, "bandwidth");
    if (latency && bandwidth && out.size() < kCheckLinksMax) {
      out.push_back({whole(one, "to", -1), *latency, *bandwidth});
    }
  }
  return out;
}

Json json_of(const Finding& finding) {
  Json out{{"node", finding.name}, {"index", finding.node}};
  if (finding.other >= 0) {
    out["other"] = finding.other;
  }
  out["metric"] = finding.metric;
  if (metric_of(finding.metric)) {
    out["value"] = finding.value;
  }
  if (finding.median) {
    out["median"] = *finding.median;
  }
  out["text"] = finding.text;
  return out;
}

Finding finding_of(const Json& json) {
  return {.node = whole(json, "index", 0),
          .other = whole(json, "other", -1),
          .name = text(field(json, "node")),
          .metric = text(field(json, "metric")),
          .value = number(json, "value").value_or(0),
          .median = number(json, "median"),
          .text = text(field(json, "text"))};
}

Json json_of(const MetricSummary& summary, bool workers_ran) {
  const MetricRule& rule = rule_of(summary.metric);
  const bool is_changed = workers_ran && rule.with_workers != WithWorkers::compare;
  return {{"metric", rule.id},
          {"compared", !is_changed && (rule.factor > 0 || rule.bad == Bad::apart)},
          {"median", summary.median},
          {"lowest", summary.lowest},
          {"lowest_node", summary.lowest_node},
          {"highest", summary.highest},
          {"highest_node", summary.highest_node}};
}

void add_summary(const Json& json, std::vector<MetricSummary>& out) {
  const auto metric = metric_of(text(field(json, "metric")));
  if (metric && out.size() < kMetrics) {
    out.push_back({*metric,
                   number(json, "median").value_or(0),
                   number(json, "lowest").value_or(0),
                   number(json, "highest").value_or(0),
                   text(field(json, "lowest_node")),
                   text(field(json, "highest_node"))});
  }
}

Json json_of(const Verdict& verdict) {
  Json findings = Json::array();
  for (const Finding& finding : verdict.findings) {
    findings.push_back(json_of(finding));
  }
  Json summary = Json::array();
  for (const MetricSummary& one : verdict.summary) {
    summary.push_back(json_of(one, verdict.workers_ran));
  }
  return {{"nodes", verdict.nodes},
          {"findings", std::move(findings)},
          {"more_findings", verdict.more_findings},
          {"bad_nodes", verdict.bad_nodes},
          {"unmeasured", verdict.unmeasured},
          {"workers_ran", verdict.workers_ran},
          {"summary", std::move(summary)}};
}

void add_port(const Json& json, std::vector<std::uint16_t>& out) {
  const bool is_port = json.is_number_unsigned() && json.get<std::uint64_t>() <= UINT16_MAX;
  out.push_back(is_port ? json.get<std::uint16_t>() : std::uint16_t{0});
}

}  // namespace

std::string encode(const NodeFigures& figures) {
  Json values = Json::object();
  for (const auto& [metric, value] : figures.values) {
    values[std::string(rule_of(metric).id)] = value;
  }
  return dump_json(Json{{"figures", std::move(values)},
                        {"problems", figures.problems},
                        {"unmeasured", figures.unmeasured},
                        {"links", json_of(figures.links)},
                        {"workers_ran", figures.workers_ran},
                        {"port", figures.port}});
}

NodeFigures decode_figures(std::string_view json) {
  const Json parsed = parse(json);
  NodeFigures out;
  for (const MetricRule& rule : metric_rules()) {
    if (const auto value = number(field(parsed, "figures"), rule.id.data())) {
      out.values[rule.metric] = *value;
    }
  }
  out.problems = texts(field(parsed, "problems"));
  out.unmeasured = texts(field(parsed, "unmeasured"));
  out.links = links_of(field(parsed, "links"));
  out.workers_ran = flag(parsed, "workers_ran");
  const int port = whole(parsed, "port", 0);
  out.port = port > 0 && port <= UINT16_MAX ? static_cast<std::uint16_t>(port) : 0;
  return out;
}

std::string encode(const Verdict& verdict, std::size_t bytes_max) {
  std::string text = dump_json(json_of(verdict));
  Verdict shorter = verdict;
  while (text.size() > bytes_max && !(shorter.findings.empty() && shorter.unmeasured.empty())) {
    const std::size_t kept = shorter.findings.size() / 2;
    shorter.more_findings += static_cast<int>(shorter.findings.size() - kept);
    shorter.findings.resize(kept);
    shorter.unmeasured.resize(shorter.unmeasured.size() / 2);
    text = dump_json(json_of(shorter));
  }
  return text;
}

Verdict decode_verdict(std::string_view json) {
  const Json parsed = parse(json);
  Verdict out;
  out.nodes = whole(parsed, "nodes", 0);
  for (const Json& one : field(parsed, "findings")) {
    if (out.findings.size() < kFindingsMax) {
      out.findings.push_back(finding_of(one));
    }
  }
  out.more_findings = whole(parsed, "more_findings", 0);
  for (const Json& one : field(parsed, "bad_nodes")) {
    if (one.is_number_integer()) {
      out.bad_nodes.push_back(one.get<int>());
    }
  }
  out.unmeasured = texts(field(parsed, "unmeasured"));
  out.workers_ran = flag(parsed, "workers_ran");
  for (const Json& one : field(parsed, "summary")) {
    add_summary(one, out.summary);
  }
  return out;
}

std::string encode(const LinkPorts& ports) {
  return dump_json(Json{{"ports", ports.ports}, {"key", ports.key}});
}

std::optional<LinkPorts> decode_link_ports(std::string_view json) {
  const Json parsed = parse(json);
  const Json& list = field(parsed, "ports");
  if (!list.is_array()) {
    return std::nullopt;
  }
  LinkPorts out{.ports = {}, .key = text(field(parsed, "key"))};
  for (const Json& one : list) {
    add_port(one, out.ports);
  }
  return out;
}

}  // namespace muster::check
