// SPDX-License-Identifier: Apache-2.0
#include "check/judge.hpp"

#include "check/links.hpp"
#include "check/outliers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

namespace muster::check {
namespace {

constexpr std::size_t kUnmeasuredMax = 20;

class Judge {
 public:
  explicit Judge(const std::vector<NodeReport>& nodes) : nodes_(nodes) {
    verdict_.nodes = static_cast<int>(nodes.size());
    verdict_.workers_ran =
        std::ranges::any_of(nodes, [](const auto& node) { return node.figures.workers_ran; });
  }

  Verdict run() {
    for (const MetricRule& rule : metric_rules()) {
      if (const auto used = verdict_.workers_ran ? rule_with_workers(rule) : std::optional(rule)) {
        compare(*used);
      }
    }
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      note_texts(static_cast<int>(i));
    }
    for (Finding& finding : judge_links(nodes_, verdict_.workers_ran, verdict_.summary)) {
      add(std::move(finding));
    }
    finish();
    return std::move(verdict_);
  }

 private:
  void compare(const MetricRule& rule) {
    std::vector<Sample> samples;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto& values = nodes_[i].figures.values;
      if (const auto found = values.find(rule.metric); found != values.end()) {
        samples.push_back({static_cast<int>(i), found->second});
      }
    }
    if (samples.empty()) {
      return;
    }
    verdict_.summary.push_back(summarize(rule, samples, [this](int node) { return name(node); }));
    for (const Outlier& outlier : find_outliers(rule, samples)) {
      add(finding_of(rule, outlier));
    }
  }

  [[nodiscard]] Finding finding_of(const MetricRule& rule, const Outlier& outlier) const {
    return {.node = outlier.sample.index,
            .name = name(outlier.sample.index),
            .metric = std::string(rule.id),
            .value = outlier.sample.value,
            .median = outlier.median,
            .text = describe(rule, outlier)};
  }

  void note_texts(int index) {
    const NodeReport& node = nodes_[static_cast<std::size_t>(index)];
    for (const std::string& problem : node.figures.problems) {
      add({.node = index, .name = node.node, .metric = "problem", .median = {}, .text = problem});
    }
    for (const std::string& text : node.figures.unmeasured) {
      if (verdict_.unmeasured.size() < kUnmeasuredMax) {
        verdict_.unmeasured.push_back(fmt::format("node {}: {}", node.node, text));
      }
    }
  }

  void add(Finding finding) {
    if (finding.other < 0) {
      verdict_.bad_nodes.push_back(finding.node);
    }
    if (verdict_.findings.size() < kFindingsMax) {
      verdict_.findings.push_back(std::move(finding));
    } else {
      ++verdict_.more_findings;
    }
  }

  void finish() {
    std::vector<int>& bad = verdict_.bad_nodes;
    std::ranges::sort(bad);
    bad.erase(std::ranges::unique(bad).begin(), bad.end());
    bad.resize(std::min(bad.size(), kBadNodesMax));
    std::ranges::stable_sort(verdict_.findings, {}, &Finding::node);
  }

  [[nodiscard]] const std::string& name(int index) const {
    return nodes_[static_cast<std::size_t>(index)].node;
  }

  const std::vector<NodeReport>& nodes_;
  Verdict verdict_;
};

}  // namespace

Verdict judge(const std::vector<NodeReport>& nodes) {
  return Judge(nodes).run();
}

std::string describe(const Finding& finding) {
  const std::string_view kind = finding.other < 0 ? "node" : "link between";
  return fmt::format("{} {}: {}", kind, finding.name, finding.text);
}

std::vector<int> link_distances(int nodes) {
  std::vector<int> distances;
  for (int distance = 1; distance < nodes; distance *= 2) {
    distances.push_back(distance);
  }
  return distances;
}

}  // namespace muster::check
