// SPDX-License-Identifier: Apache-2.0
// How RoundCore handles restarted agents that have the record of their predecessors on the same
// host (rendezvous/round/README.md, "Agents that are restarted").
#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "rendezvous/round/leader/ranking.hpp"
#include "rendezvous/round/leader/round_core.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace muster {

bool RoundCore::is_of_other_job(const Inheritance& record) const {
  return !record.ids.empty() && base_->id.number > 0 && record.job != base_->job;
}

Inheritance RoundCore::inheritance() const {
  Inheritance ours = inherits_;
  ours.unconfirmed = is_recalled();
  return ours;
}

// True if the predecessor of this node accepted the round.
bool RoundCore::is_heir(NodeId id, const Round& round) const {
  // The agent itself accepted the rounds after `until`, so it is an ordinary member of those
  // rounds.
  const auto found = heirs_.find(id);
  return found != heirs_.end() && round.id <= found->second && !MUSTER_MUTATE("heirs found jobs");
}

// Returns the same round, with restarted agents in place of their predecessors.
RoundPtr RoundCore::inherited(const RoundPtr& round) const {
  const auto is_gone = [&](const NodeInfo& member) { return predecessors_.contains(member.id); };
  if (predecessors_.empty() || std::ranges::none_of(round->members, is_gone)) {
    return round;
  }
  auto changed = std::make_shared<Round>(*round);
  for (NodeInfo& member : changed->members) {
    if (const auto heir = predecessors_.find(member.id); heir != predecessors_.end()) {
      member = heir->second;
    }
  }
  return changed;
}

// The agent knows everything that its predecessors accepted. The predecessors and their workers are
// dead.
void RoundCore::succeed(TimePoint now, const Hello& hello, NodeEffects& out) {
  const bool is_over = phase_ == Phase::closed;
  if (is_over || hello.inherits.ids.empty() || is_of_other_job(hello.inherits)) {
    return;
  }
  const auto inherits = [&](NodeId id) {
    return id != hello.node.id && id != self_.id && !finished_.contains(id);
  };
  heirs_.insert_or_assign(hello.node.id, hello.inherits.until);
  std::vector<NodeId> ids = hello.inherits.ids;
  for (const NodeId gone : hello.inherits.ids) {
    // This was an earlier agent with the same record. That agent accepted no round that the record
    // lacks.
    if (const auto before = predecessors_.find(gone); before != predecessors_.end()) {
      ids.push_back(before->second.id);
    }
  }
  for (const NodeId gone : ids) {
    if (inherits(gone)) {
      end_predecessor(now, gone, hello.node, out);
      predecessors_.insert_or_assign(gone, hello.node);
    }
  }
  give_places(now);
}

void RoundCore::end_predecessor(TimePoint now,
                                NodeId gone,
                                const NodeInfo& heir,
                                NodeEffects& out) {
  const auto found = nodes_.find(gone);
  if (found != nodes_.end() && found->second.attached) {
    out.emplace_back(CloseLink{found->second.link});
    lose(now, gone, out);
  }
  forget(gone);
  asker_.forget(gone, out);
  if (!is_member(gone)) {
    return;
  }
  MUSTER_MARK("a node takes the place of its predecessor");
  if (phase_ == Phase::running && is_in_base(gone)) {
    const std::string what = fmt::format("node '{}' was restarted", heir.name);
    regroup(now, {what, ranks_of(*base_, gone)}, true, out);
  } else if (phase_ == Phase::stopping) {
    membership_changed_ = true;
  }
}

// From now on, a quorum counts an agent in its predecessor's place.
void RoundCore::give_places(TimePoint now) {
  for (const auto& [gone, heir] : predecessors_) {
    losses_.erase(gone);
  }
  for (RoundPtr& round : accepted_) {
    round = inherited(round);
  }
  set_base(inherited(base_));
  await_missing(now);
  count_expected(now);
}

}  // namespace muster
