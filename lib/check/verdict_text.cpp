// SPDX-License-Identifier: Apache-2.0
#include "check/verdict_text.hpp"

#include "base/plural.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <string_view>
#include <vector>

namespace muster::check {
namespace {

std::string head(const Verdict& verdict) {
  const auto defects = verdict.findings.size() + static_cast<std::size_t>(verdict.more_findings);
  return fmt::format("{}: {}\n",
                     counted(verdict.nodes, "node"),
                     defects == 0 ? "no defects" : counted(defects, "defect"));
}

std::string row(const MetricSummary& summary) {
  const MetricRule& rule = rule_of(summary.metric);
  const std::string lowest = describe(rule.unit, summary.lowest);
  const std::string highest = describe(rule.unit, summary.highest);
  const std::string median = describe(rule.unit, summary.median);
  if (lowest == highest) {
    return fmt::format("  {:<30} {}\n", rule.name, median);
  }
  return fmt::format("  {:<30} {}: lowest {} ({}), highest {} ({})\n",
                     rule.name,
                     median,
                     lowest,
                     summary.lowest_node,
                     highest,
                     summary.highest_node);
}

std::string names(WithWorkers kind) {
  std::vector<std::string> out;
  for (const MetricRule& rule : metric_rules()) {
    if (rule.with_workers == kind) {
      out.emplace_back(rule.name);
    }
  }
  return join(out, ", ");
}

}  // namespace

std::string verdict_text(const Verdict& verdict) {
  std::string out = head(verdict);
  for (const Finding& finding : verdict.findings) {
    out += describe(finding) + "\n";
  }
  if (verdict.more_findings > 0) {
    out += fmt::format("{} more defects\n", verdict.more_findings);
  }
  for (const std::string& text : verdict.unmeasured) {
    out += "not measured: " + text + "\n";
  }
  out += "median of all nodes:\n";
  for (const MetricSummary& summary : verdict.summary) {
    out += row(summary);
  }
  if (verdict.workers_ran) {
    out += "not measured while workers run: " + names(WithWorkers::skip) + "\n";
    out += "not compared while workers run: " + names(WithWorkers::limit_only) + "\n";
  }
  return out;
}

}  // namespace muster::check
