// SPDX-License-Identifier: Apache-2.0
// LinkCore's record: a round is recorded before it is accepted, and a restarted agent starts from
// its predecessors' record on this host (rendezvous/round/README.md).
#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "rendezvous/round/follower/link_core.hpp"

#include <algorithm>
#include <utility>

namespace muster {

// Acts like a node that has just lost its coordinator. To that coordinator, our predecessor (the
// agent that ran here before the restart) was still a follower, so leases from the coordinator may
// still be valid.
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
  record(out);  // so that a restarted agent can recover this state
}

// Forgets the job in our record if the proposal is for another job. In that case, none of the nodes
// that we have reached knows the recorded job.
void LinkCore::forget_other_job(const Round& proposed) {
  if (inherits_.unconfirmed && work_ == Work::none && proposed.job != inherits_.job) {
    started_ = std::make_shared<const Round>();
    accepted_ = started_;
    accepted_base_ = started_;
    inherits_ = {};
  }
}

// Once a node has accepted a proposal, its coordinator may start the round at any time, until the
// node abandons the coordinator. So a node accepts no proposal while its workers run, and no round
// older than its last one. Group rank 0 opens the store first; the others learn its address from
// Start.
void LinkCore::take_proposal(TimePoint now, const Propose& propose, NodeEffects& out) {
  forget_other_job(*propose.round);
  const bool is_newer = propose.round->id.number > started_->id.number;
  const auto self = std::ranges::find(propose.round->members, self_.id, &NodeInfo::id);
  if (work_ != Work::none || leaving_ || !is_newer || self == propose.round->members.end()) {
    return;
  }
  if (!may_withdraw()) {
    replaced_ = accepted_;
    replaced_base_ = accepted_base_;
  }
  accepted_ = propose.round;
  accepted_base_ = propose.base;
  accepted_rank_ = static_cast<std::int32_t>(self - propose.round->members.begin());
  recording_ = accepted_->id;
  // The coordinator received the heartbeat that we sent at `answered_` before it proposed. For one
  // lease after that time, no node that knows this first proposal forms a round without us.
  if (propose.base->id.number == 0 && answered_) {
    gone_.note_grant(*answered_, coordinator_.id);
  }
  record(out);
  if (!settings_.records || MUSTER_MUTATE("accepted before recorded")) {
    accept_recorded(now, recording_, out);
  }
}

// True if the proposal that we recorded may be withdrawn. A proposal that we have not accepted has
// not started and never will, because its leader abandons it when it loses us. There are three
// exceptions:
// - Our own proposal: its number must not be used twice.
// - The first proposal of the job: other nodes may form the first round with a quorum of it.
// - The only proposal that we know, if we are a member of its base, because we could then lead.
bool LinkCore::may_withdraw() const {
  const auto& before = accepted_base_->members;
  const bool is_new = started_->id.number == 0 && replaced_ && replaced_->id.number == 0;
  const bool is_in_base = std::ranges::find(before, self_.id, &NodeInfo::id) != before.end();
  return replaced_ && accepted_base_->id.number > 0 && accepted_->id.coordinator != self_.id &&
         !(is_new && is_in_base);
}

// Called when we have lost the leader that proposed the round. If we kept the proposal, the next
// leader would need a quorum of its members. A newcomer remembers that the job runs without it, so
// that it does not found another job.
void LinkCore::withdraw_proposal(NodeEffects& out) {
  if (!may_withdraw()) {
    return;
  }
  const RoundPtr base = accepted_base_;
  accepted_ = std::exchange(replaced_, nullptr);
  accepted_base_ = std::exchange(replaced_base_, nullptr);
  recording_ = {};
  if (base->id > members().id) {
    heard_of_ = base;
  }
  if (started_->id.number > 0 || accepted_->id.number > 0) {
    record(out);
  }
}

// The ids of earlier agents are kept, because a coordinator may know only an older round that
// contains one of them.
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

// Accepts the round once it is recorded. Otherwise, a node that crashed could forget the round and
// then deny that it accepted.
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
  replaced_.reset();
  accept_sent_ = now;
  send(Accept{accepted_->id, "", 0}, out);
}

// Leaves the job, because the older record still exists and would now be wrong.
void LinkCore::record_failed(const RecordFailed& failed, NodeEffects& out) {
  if (failed.round == accepted_->id && state_ != State::ended) {
    send(Leave{failed.error.message, true}, out);
    end(EndFailed{failed.error}, out);
  }
}

}  // namespace muster
