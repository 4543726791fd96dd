// SPDX-License-Identifier: Apache-2.0
// LinkCore and its record: what it accepts is recorded first, and what the agents before it on this
// host recorded is where it begins (rendezvous/round/README.md).
#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "rendezvous/round/follower/link_core.hpp"

#include <algorithm>
#include <utility>

namespace muster {

// As if we had been the agent before us, without a coordinator: the one that it had may have
// granted leases until a moment ago, since it counted that agent.
void LinkCore::recall(TimePoint now, const Memory& memory, NodeEffects& out) {
  if (MUSTER_MUTATE("records ignored")) {
    return;
  }
  MUSTER_MARK("a node recalls what its predecessor has promised");
  const RoundPtr& last = memory.accepted->id.number > 0 ? memory.accepted : memory.started;
  inherits_ = {last->job, std::max(memory.started->id, memory.accepted->id), memory.ids, true};
  quiet_at_ = now + settings_.lease;
  lost_touch_ = true;
  const auto as_ours = [&](const RoundPtr& round) {
    auto changed = std::make_shared<Round>(*round);
    for (NodeInfo& member : changed->members) {
      member = std::ranges::count(memory.ids, member.id) > 0 ? self_ : member;
    }
    return changed;
  };
  started_ = as_ours(memory.started);
  accepted_ = as_ours(memory.accepted);
  accepted_base_ = as_ours(memory.base);
  record(out);  // whoever comes after us inherits from us, too
}

// No node that we have met remembers the job that our record is of.
void LinkCore::forget_other_job(const Round& proposed) {
  if (inherits_.unconfirmed && work_ == Work::none && proposed.job != inherits_.job) {
    started_ = std::make_shared<const Round>();
    accepted_ = started_;
    accepted_base_ = started_;
    inherits_ = {};
  }
}

// Who accepts may be started by that coordinator until it turns away, so it accepts nothing while
// its workers run, and no round that is not later than its last one. Group rank 0 opens the store
// first: the others are told its address with the order to start.
void LinkCore::take_proposal(TimePoint now, const Propose& propose, NodeEffects& out) {
  forget_other_job(*propose.round);
  const bool is_newer = propose.round->id.number > started_->id.number;
  const auto self = std::ranges::find(propose.round->members, self_.id, &NodeInfo::id);
  if (work_ != Work::none || leaving_ || !is_newer || self == propose.round->members.end()) {
    return;
  }
  accepted_ = propose.round;
  accepted_base_ = propose.base;
  accepted_rank_ = static_cast<std::int32_t>(self - propose.round->members.begin());
  recording_ = accepted_->id;
  record(out);
  if (!settings_.records || MUSTER_MUTATE("accepted before recorded")) {
    accept_recorded(now, recording_, out);
  }
}

// The ids of agents before us stay: a coordinator may know only an older round, with one of them.
void LinkCore::record(NodeEffects& out) const {
  if (settings_.records) {
    std::vector<NodeId> ids = inherits_.ids;
    ids.push_back(self_.id);
    if (ids.size() > kMaxFormerIds) {
      ids.erase(ids.begin(), ids.end() - kMaxFormerIds);
    }
    out.emplace_back(RecordRound{Memory{started_, accepted_, accepted_base_, std::move(ids)}});
  }
}

// Whoever accepts before that is on disk could forget it, and testify that it never did.
void LinkCore::accept_recorded(TimePoint now, RoundId round, NodeEffects& out) {
  const bool is_wanted = round == recording_ && round == accepted_->id && round.number > 0;
  if (!is_wanted || state_ != State::attached || work_ != Work::none || leaving_) {
    return;
  }
  recording_ = {};
  if (accepted_rank_ == 0) {
    out.emplace_back(OpenStore{accepted_->id});
    return;
  }
  accept_sent_ = now;
  send(Accept{accepted_->id, "", 0}, out);
}

// The older record is still there, and would be a false testimony.
void LinkCore::record_failed(const RecordFailed& failed, NodeEffects& out) {
  if (failed.round == accepted_->id && state_ != State::ended) {
    send(Leave{failed.error.message, true}, out);
    end(EndFailed{failed.error}, out);
  }
}

}  // namespace muster
