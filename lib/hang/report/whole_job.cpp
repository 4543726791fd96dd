// SPDX-License-Identifier: Apache-2.0
#include "hang/report/whole_job.hpp"

#include "base/plural.hpp"
#include "base/printable.hpp"
#include "hang/hang_core.hpp"
#include "hang/judge/judge.hpp"
#include "hang/judge/own_cause.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace muster::hang {
namespace {

int rank_of_process(const Evidence& evidence, pid_t pid) {
  for (const RankEvidence& rank : evidence.ranks) {
    if (pid != 0 &&
        std::ranges::find(rank.processes, pid, &ProcessFacts::pid) != rank.processes.end()) {
      return rank.rank;
    }
  }
  return -1;
}

std::string quoted(const std::string& name) {
  return "'" + printable(name) + "'";
}

// -- the nodes' reports -----------------------------------------------------------------------

// Descriptions of missing evidence, each with the nodes to which it applies.
using Gaps = std::map<std::string, std::vector<std::string>>;

std::string words_of(const NodeFindings& node) {
  switch (node.state) {
    case NodeState::silent:
      return fmt::format("has been silent for {:.0f} s", node.waited);
    case NodeState::late:
      return fmt::format("did not answer within {:.0f} s", node.waited);
    case NodeState::off:
      return "does not detect hangs: pass --hang-timeout there, too";
    case NodeState::unreadable:
      return "sent an unreadable answer";
    case NodeState::answered:
    case NodeState::finished:
      break;
  }
  return {};
}

void add_answer(const NodeFindings& node, Evidence& out, Gaps& gaps) {
  std::set<int> seen;
  for (const RankEvidence& rank : node.evidence.ranks) {
    const int place = rank.rank - node.rank_first;
    // Answers are untrusted. A node can report only its own ranks, and each of them once.
    if (place >= 0 && place < node.ranks && seen.insert(place).second) {
      out.ranks.push_back(rank);
      out.ranks.back().node = node.name;
    }
  }
  if (static_cast<int>(seen.size()) < node.ranks) {
    gaps[fmt::format("reported {} of its {} ranks", seen.size(), node.ranks)].push_back(node.name);
  }
  for (const std::string& gap : node.evidence.gaps) {
    gaps[gap].push_back(node.name);
  }
  // An answer without ranks contains no valid limit. With a limit of 0, every rank would count
  // as hung.
  if (!seen.empty() && node.evidence.limit > 0) {
    out.limit = std::min(out.limit, node.evidence.limit);
    out.progress = std::min(out.progress, node.evidence.progress);
  }
}

// Adds ranks about which nothing else is known.
void add_unseen(const NodeFindings& node, Evidence& out) {
  for (int i = 0; i < std::min(node.ranks, kRanksOfNodeMax); ++i) {
    RankEvidence rank{.rank = node.rank_first + i, .local_rank = i, .node = node.name};
    rank.ended = node.state == NodeState::finished;
    rank.own = OwnCause{.reason = "has exited"};
    if (!rank.ended) {
      rank.own->cause = Cause::node_silent;
      rank.own->reason = "its node " + words_of(node);
    }
    out.ranks.push_back(std::move(rank));
  }
}

// Often only rank 0 reports progress. Its progress then counts for all ranks on all nodes that have
// never reported any.
void share_progress(Evidence& evidence) {
  for (RankEvidence& rank : evidence.ranks) {
    rank.quiet = rank.strong ? rank.quiet : std::min(rank.quiet, evidence.progress);
  }
}

Evidence gather(const std::vector<NodeFindings>& nodes, Gaps& gaps) {
  // If no node reports a limit, `limit` stays at the maximum, and the verdict does not count.
  Evidence out{.limit = std::numeric_limits<double>::max(),
               .progress = std::numeric_limits<double>::max()};
  for (const NodeFindings& node : nodes) {
    out.world_size += node.ranks;
    if (node.state == NodeState::answered) {
      add_answer(node, out, gaps);
      continue;
    }
    if (const std::string words = words_of(node); !words.empty()) {
      gaps[words].push_back(node.name);
    }
    // Ranks on nodes that are off or unreadable stay out of the evidence, because nothing is known
    // about them. judge() detects by world_size that ranks are missing.
    if (node.state != NodeState::off && node.state != NodeState::unreadable) {
      add_unseen(node, out);
    }
  }
  share_progress(out);
  return out;
}

std::vector<std::string> texts_of(const Gaps& gaps) {
  std::vector<std::string> out;
  for (const auto& [words, names] : gaps) {
    out.push_back(fmt::format(
        "{} {}: {}", agreeing(names.size(), "node", "nodes"), name_some(names, quoted), words));
  }
  return out;
}

// -- validity of the verdict ------------------------------------------------------------------

bool is_unseen(const RankEvidence& rank) {
  return rank.own && rank.own->cause == Cause::node_silent;
}

// The same rule as in HangCore::is_slow().
bool is_slow(const RankEvidence& rank, double limit) {
  return rank.quiet < limit || (rank.lifeless < limit && rank.quiet < kSlowFactor * limit);
}

// Like HangCore::judged, but for all nodes.
bool counts(const Evidence& evidence, const Verdict& verdict) {
  std::vector<const RankEvidence*> seen;
  for (const RankEvidence& rank : evidence.ranks) {
    if (!rank.ended && !is_unseen(rank)) {
      seen.push_back(&rank);
    }
  }
  // The ranks may have made progress while the nodes inspected them.
  const bool hangs = std::ranges::any_of(
      seen, [&](const RankEvidence* rank) { return rank->quiet >= evidence.limit; });
  const bool strong = std::ranges::any_of(seen, &RankEvidence::strong);
  // If no rank reported steps or collective operations, any live rank may be the one that stalls
  // the others, so all of them are checked.
  const bool slow = std::ranges::any_of(seen, [&](const RankEvidence* rank) {
    const bool matters =
        !strong || std::ranges::find(verdict.ranks, rank->rank) != verdict.ranks.end();
    return matters && is_slow(*rank, evidence.limit);
  });
  return hangs && (!slow || verdict.cause == Cause::stopped);
}

// -- names ------------------------------------------------------------------------------------

std::vector<std::string> nodes_of(const std::vector<int>& ranks,
                                  const std::map<int, std::string>& by_first_rank) {
  std::vector<std::string> out;
  for (const int rank : ranks) {
    // Each node has consecutive ranks, so `rank` is on the last node whose first rank is at most
    // `rank`.
    const auto next = by_first_rank.upper_bound(rank);
    if (next == by_first_rank.begin()) {
      continue;
    }
    const std::string& name = std::prev(next)->second;
    if (out.empty() || out.back() != name) {
      out.push_back(name);
    }
  }
  std::ranges::sort(out);
  const auto repeated = std::ranges::unique(out);
  out.erase(repeated.begin(), repeated.end());
  return out;
}

void name_nodes(const std::vector<NodeFindings>& nodes, Verdict& verdict) {
  std::map<int, std::string> by_first_rank;
  for (const NodeFindings& node : nodes) {
    by_first_rank[node.rank_first] = node.name;
  }
  verdict.nodes = nodes_of(verdict.ranks, by_first_rank);
  for (Group& group : verdict.groups) {
    group.nodes = nodes_of(group.ranks, by_first_rank);
  }
}

// The first blamed rank whose node can act. If there is none, the first rank whose node can act.
int acting_rank(const Evidence& evidence, const Verdict& verdict) {
  const auto can_act = [](const RankEvidence& rank) { return !rank.ended && !is_unseen(rank); };
  for (const int blamed : verdict.ranks) {
    const auto found = std::ranges::find(evidence.ranks, blamed, &RankEvidence::rank);
    if (found != evidence.ranks.end() && can_act(*found)) {
      return blamed;
    }
  }
  const auto any = std::ranges::find_if(evidence.ranks, can_act);
  return any == evidence.ranks.end() ? -1 : any->rank;
}

}  // namespace

Evidence summary_of(const Evidence& evidence) {
  Evidence out = evidence;
  for (RankEvidence& rank : out.ranks) {
    rank.own = own_cause(rank);
    // A pid is meaningless on another node, so the holder's rank is determined here. The processes
    // are then removed from `out`, but not from `evidence`.
    rank.own->holder_rank = rank_of_process(evidence, rank.own->holder);
    rank.processes.clear();
  }
  return out;
}

WholeVerdict judge_all(const std::vector<NodeFindings>& nodes) {
  Gaps gaps;
  const Evidence evidence = gather(nodes, gaps);
  WholeVerdict out;
  out.verdict = judge(evidence);
  name_nodes(nodes, out.verdict);
  out.counts = counts(evidence, out.verdict);
  out.acting_rank = acting_rank(evidence, out.verdict);
  out.facts.gaps = texts_of(gaps);
  out.facts.limit = evidence.limit;
  for (const RankEvidence& rank : evidence.ranks) {
    out.facts.quiet = std::max(out.facts.quiet, rank.ended ? 0.0 : rank.quiet);
  }
  return out;
}

}  // namespace muster::hang
