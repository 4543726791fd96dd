// SPDX-License-Identifier: Apache-2.0
#include "check/links.hpp"

#include "check/outliers.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace muster::check {
namespace {

// A node with a single link cannot be told apart from the node at the link's other end.
constexpr std::size_t kLinksToJudgeNode = 2;

// Two nodes have one link in each direction. There is no third link that could tell which of the
// two is normal, and on busy hosts one direction is often several times slower.
constexpr std::size_t kLinksToCompare = 3;

struct Link {
  int from = 0;
  int to = 0;
  LinkFigures figures;
};

std::vector<Link> links_of(const std::vector<NodeReport>& nodes) {
  std::vector<Link> links;
  const int count = static_cast<int>(nodes.size());
  for (int from = 0; from < count; ++from) {
    for (const LinkFigures& link : nodes[static_cast<std::size_t>(from)].figures.links) {
      if (link.to >= 0 && link.to < count && link.to != from) {
        links.push_back({from, link.to, link});
      }
    }
  }
  return links;
}

// The links of one direction of a node: how many there are, and which of them are bad.
struct Direction {
  std::size_t links = 0;
  std::vector<Outlier> bad{};

  [[nodiscard]] bool is_bad() const { return links >= kLinksToJudgeNode && bad.size() == links; }
};

class LinkJudge {
 public:
  LinkJudge(const std::vector<NodeReport>& nodes, const std::vector<Link>& links, MetricRule rule)
      : nodes_(nodes), links_(links), rule_(rule) {
    rule_.factor = links.size() < kLinksToCompare ? 0 : rule_.factor;
    for (std::size_t i = 0; i < links.size(); ++i) {
      const LinkFigures& link = links[i].figures;
      samples_.push_back(
          {static_cast<int>(i), rule.metric == Metric::latency ? link.latency : link.bandwidth});
    }
  }

  [[nodiscard]] MetricSummary summary() const {
    return summarize(rule_, samples_, [this](int index) { return name(link_at(index)); });
  }

  [[nodiscard]] std::vector<Finding> run() const {
    const std::vector<Outlier> bad = find_outliers(rule_, samples_);
    std::vector<Finding> findings;
    std::set<int> named;
    for (const bool to : {true, false}) {
      for (const auto& [node, direction] : directions(bad, to)) {
        if (direction.is_bad() && named.insert(node).second) {
          findings.push_back(node_finding(node, direction));
        }
      }
    }
    for (const Outlier& outlier : bad) {
      const Link& link = link_at(outlier.sample.index);
      if (!named.contains(link.from) && !named.contains(link.to)) {
        findings.push_back(link_finding(link, outlier));
      }
    }
    return findings;
  }

 private:
  [[nodiscard]] std::map<int, Direction> directions(const std::vector<Outlier>& bad,
                                                    bool to) const {
    std::map<int, Direction> out;
    for (const Link& link : links_) {
      ++out[to ? link.to : link.from].links;
    }
    for (const Outlier& outlier : bad) {
      const Link& link = link_at(outlier.sample.index);
      out[to ? link.to : link.from].bad.push_back(outlier);
    }
    return out;
  }

  [[nodiscard]] Finding node_finding(int node, const Direction& direction) const {
    const bool low = rule_.bad == Bad::low;
    const auto best = std::ranges::max_element(
        direction.bad, {}, [low](const Outlier& one) { return one.sample.value * (low ? 1 : -1); });
    return finding(*best, {.node = node, .name = name(node), .median = {}});
  }

  [[nodiscard]] Finding link_finding(const Link& link, const Outlier& outlier) const {
    return finding(outlier,
                   {.node = link.from, .other = link.to, .name = name(link), .median = {}});
  }

  [[nodiscard]] Finding finding(const Outlier& outlier, Finding out) const {
    out.metric = rule_.id;
    out.value = outlier.sample.value;
    out.median = outlier.median;
    out.text = describe(rule_, outlier);
    return out;
  }

  [[nodiscard]] const Link& link_at(int index) const {
    return links_[static_cast<std::size_t>(index)];
  }

  [[nodiscard]] const std::string& name(int node) const {
    return nodes_[static_cast<std::size_t>(node)].node;
  }

  [[nodiscard]] std::string name(const Link& link) const {
    return fmt::format("{} and {}", name(link.from), name(link.to));
  }

  const std::vector<NodeReport>& nodes_;
  const std::vector<Link>& links_;
  MetricRule rule_;
  std::vector<Sample> samples_;
};

}  // namespace

std::vector<Finding> judge_links(const std::vector<NodeReport>& nodes,
                                 bool workers_ran,
                                 std::vector<MetricSummary>& summary) {
  const std::vector<Link> links = links_of(nodes);
  std::vector<Finding> findings;
  if (links.empty()) {
    return findings;
  }
  for (const Metric metric : {Metric::latency, Metric::bandwidth}) {
    const MetricRule& rule = rule_of(metric);
    const LinkJudge judge(
        nodes, links, workers_ran ? rule_with_workers(rule).value_or(rule) : rule);
    summary.push_back(judge.summary());
    for (Finding& finding : judge.run()) {
      findings.push_back(std::move(finding));
    }
  }
  return findings;
}

}  // namespace muster::check
