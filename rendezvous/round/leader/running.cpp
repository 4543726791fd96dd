// SPDX-License-Identifier: Apache-2.0
// RoundCore while a round runs or ends: handles failures, leaving nodes, newcomers, the verdict and
// the end of the job.
#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "rendezvous/round/leader/ranking.hpp"
#include "rendezvous/round/leader/round_core.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace muster {

// Stops all nodes. judge() decides what happens next, once all of them have answered.
void RoundCore::regroup(TimePoint now, const Regroup& why, bool membership, NodeEffects& out) {
  enter(now, Phase::stopping);
  regroup_ = why;
  deaf_.clear();
  membership_changed_ = membership_changed_ || membership;
  const auto message = std::make_shared<const RoundMessage>(regroup_);
  for (auto& [id, node] : nodes_) {
    // Finished nodes that are still attached (note_finish) join the next round.
    if (node.attached && (node.state == State::running || node.state == State::finished)) {
      node.asked = now;
      out.emplace_back(SendMessage{node.link, message});
    }
  }
  count_expected(now);
}

void RoundCore::note_failure(TimePoint now,
                             const Node& node,
                             const Failed& failed,
                             NodeEffects& out) {
  const bool counts = phase_ == Phase::running || phase_ == Phase::stopping;
  if (!counts || failed.round != base_->id || failures_.size() >= kFailuresMax) {
    return;
  }
  // A node repeats its failures after it has reconnected.
  if (!failed_ranks_.emplace(node.info.id, failed.rank).second) {
    return;
  }
  mends_.failed = mends_.failed || was_counted(node.info.id, failed.rank);
  failures_.push_back(Failure{node.info.id, now - failed.age, failed});
  if (phase_ == Phase::running) {
    regroup(now,
            {fmt::format("rank {} on '{}' {}", failed.rank, node.info.name, failed.text),
             {std::max(failed.rank, 0), failed.rank < 0 ? 0 : 1}},
            false,
            out);
  }
}

void RoundCore::note_details(const Node& /*node*/, const Details& details) {
  if (details.round == base_->id && details_.size() < kOtherFailuresMax) {
    details_.try_emplace(details.rank, details.blob);
  }
}

// The node's workers succeeded while the node was disconnected, and the round has ended in the
// meantime.
void RoundCore::note_late_finish(const Node& node, NodeEffects& out) {
  if (node.state == State::unknown && phase_ != Phase::closed) {
    MUSTER_MARK("a node finished a round that has ended");
    send(node.link, Regroup{"the round has ended"}, out);
  }
}

// A finished node may exit, except for the node with the workers' store and ourselves.
void RoundCore::note_finish(TimePoint now, Node& node, const Finished& finished, NodeEffects& out) {
  const NodeId id = node.info.id;
  if (phase_ != Phase::running || finished.round != base_->id || !is_in_base(id)) {
    note_late_finish(node, out);
    return;
  }
  // A node sends Finished again after it has reconnected.
  if (node.state != State::running || !finished_.insert(id).second) {
    return;
  }
  set_state(node, State::finished);
  if (mends_.unready.contains(id)) {
    MUSTER_MARK("a node finishes before it takes part in a mend");
    mends_.failed = true;
    regroup(now, {fmt::format("node '{}' has finished", node.info.name)}, false, out);
    return;
  }
  if (finished_.size() == base_->members.size()) {
    Close ending;
    ending.succeeded = true;
    close(now, std::move(ending), out);
    return;
  }
  if (id != self_.id && id != base_->members.front().id) {
    send(node.link, Dismiss{}, out);
    // The node counts like a member that is proven dead in time, because it has no workers and now
    // exits.
    losses_[id] = Loss{true, now, true, true};
    --expected_;
    links_.erase(node.link);
    dismissed_.insert(node.link);  // do not exit before the node has read Dismiss
    set_state(node, State::unknown);
    nodes_.erase(id);
  }
}

void RoundCore::note_leave(TimePoint now, Node& node, const Leave& leave, NodeEffects& out) {
  const NodeId id = node.info.id;
  const std::string name = node.info.name;
  if (leave.workers_gone) {
    // Our own Leave is followed by EndLeft, after which this core is not stepped any more.
    if (id != self_.id) {
      bury(now, id, out);
    }
    return;
  }
  const bool proposed = phase_ == Phase::proposing && is_in(*proposal_, id);
  const bool runs = node.state == State::running || node.state == State::finished;
  set_state(node, State::leaving);
  if (proposed) {
    abandon(now, out);
  } else if (phase_ == Phase::running && runs) {
    regroup(now,
            {fmt::format("node '{}' leaves: {}", name, leave.reason),
             ranks_of(*base_, id),
             leave.is_planned},
            true,
            out);
  } else if (phase_ == Phase::stopping) {
    membership_changed_ = true;
  }
}

// Regroups if nodes became ready while the round was running and there is room for them. Otherwise
// these nodes wait as spares.
void RoundCore::welcome_newcomers(TimePoint now, NodeEffects& out) {
  // Once a member has finished, there is no regroup for newcomers, because dismissed members would
  // be missing from the next round.
  const auto most = static_cast<std::size_t>(settings_.terms.nodes_max);
  const bool may_join =
      ready_ > 0 && !restarts_ended_ && finished_.empty() && base_->members.size() < most;
  const auto found = may_join && settings_.join_delay
                         ? std::ranges::find_if(
                               nodes_, [](const auto& entry) { return is_eligible(entry.second); })
                         : nodes_.end();
  if (found == nodes_.end()) {
    newcomer_since_.reset();  // a newcomer that has left must not leave its deadline behind
    return;
  }
  // Further newcomers within `join_delay` join with the same regroup.
  if (!newcomer_since_) {
    newcomer_since_ = now;
  }
  if (now >= *newcomer_since_ + *settings_.join_delay) {
    MUSTER_MARK("a newcomer makes the job regroup");
    regroup(now, {fmt::format("node '{}' joins", found->second.info.name)}, false, out);
  }
}

// -- verdict ----------------------------------------------------------------------------------

// A node that has not answered may be dying. In that case its peers' failures are only
// consequences.
bool RoundCore::everybody_heard() const {
  return running_ == 0 && std::ranges::all_of(losses_, [](const auto& entry) {
           return entry.second.gone || entry.second.over;
         });
}

// The earliest failure. Each node reports the age of its failures, so clocks of different hosts are
// not compared.
const RoundCore::Failure& RoundCore::root() const {
  return *std::ranges::min_element(failures_, {}, [](const Failure& failure) {
    return std::pair(failure.message.consequence, failure.when);
  });
}

void RoundCore::judge(TimePoint now, NodeEffects& out) {
  if (verdict_by_) {
    // A worker that is being stopped may have left proof that it failed first.
    if ((stopping_ == 0 && details_.contains(root().message.rank)) || now >= *verdict_by_) {
      close_failed(now, out);
    }
    return;
  }
  if (!everybody_heard()) {
    return;
  }
  // After a membership change, the failures may be consequences of a loss. Such failures do not
  // reduce the restart budget.
  if (restarts_ended_) {
    end_preempted(now, out);
    return;
  }
  if (!membership_changed_ && mends_.failed) {
    ++restart_count_;  // policy_ has counted the mend
  } else if (!membership_changed_ && !failures_.empty()) {
    const Failed& first = root().message;
    const RestartDecision decision = policy_.decide(first);
    if (!decision.restart) {
      MUSTER_MARK("no restart is left");
      verdict_ = decision.reason;
      verdict_by_ = now + kDetailsTimeout;
      judge(now, out);
      return;
    }
    restart_count_ += MUSTER_MUTATE("restarts not counted") ? 0 : 1;
    out.emplace_back(SayNode{fmt::format("rank {} on '{}' {}; restarting all workers: {}",
                                         first.rank,
                                         name_of(root().node),
                                         first.text,
                                         decision.reason)});
    note_first_failure(now, {root().node, first.rank, node_cause_of(root())}, out);
  }
  enter(now, Phase::gathering);
  roll_call_due_ = now + kRollCallInterval;
  evaluate(now, out);
}

// After a notice of preemption the job does not restart. Without a failure, a node was lost or has
// left: the others have saved what they could.
void RoundCore::end_preempted(TimePoint now, NodeEffects& out) {
  if (failures_.empty()) {
    Close ending;
    ending.succeeded = true;
    close(now, std::move(ending), out);
    return;
  }
  verdict_ = std::string(kPreemptedVerdict);
  verdict_by_ = now + kDetailsTimeout;
  judge(now, out);
}

// -- the end ----------------------------------------------------------------------------------

void RoundCore::close_failed(TimePoint now, NodeEffects& out) {
  const Failure& first = root();
  Close ending;
  ending.exit_code = first.message.exit_code;
  ending.reason = verdict_;
  ending.root_rank = first.message.rank;
  ending.root_node = name_of(first.node);
  ending.root_text = first.message.text;
  if (const auto found = details_.find(first.message.rank); found != details_.end()) {
    ending.details = found->second;
  }
  for (const Failure& failure : failures_) {
    if (failure.message.rank == first.message.rank) {
      continue;
    }
    ++ending.others_count;
    if (ending.others.size() < kOtherFailuresMax) {
      ending.others.push_back(
          OtherFailure{failure.message.rank, name_of(failure.node), failure.message.text});
    }
  }
  close(now, std::move(ending), out);
}

// A member that has just lost its connection does not know that the job has ended. If we exited
// before it reconnects, it could lead and continue alone.
bool RoundCore::is_anyone_coming_back() const {
  return std::ranges::any_of(losses_,
                             [](const auto& entry) { return may_come_back(entry.second); });
}

// This node exits last. Other nodes close their connections when they receive Close.
void RoundCore::close(TimePoint now, Close ending, NodeEffects& out) {
  enter(now, Phase::closed);
  verdict_by_.reset();
  close_ = std::move(ending);
  asker_.forget_all(out);
  for (const auto& [id, loss] : losses_) {
    if (may_come_back(loss)) {
      NodeInfo lost;
      lost.id = id;
      asker_.want(now, known_as(lost));  // query it until it returns or is proven dead
    }
  }
  ask_around(now, out);
  const auto message = std::make_shared<const RoundMessage>(*close_);
  for (const auto& [link, id] : links_) {
    if (link != 0) {
      out.emplace_back(SendMessage{link, message});
    }
  }
  evaluate(now, out);
}

void RoundCore::end_closed(TimePoint /*now*/, NodeEffects& out) {
  // Close our own follower last, because its Close ends this node.
  if (const auto self = links_.find(0); self != links_.end()) {
    links_.erase(self);
    send(0, *close_, out);
  }
}

}  // namespace muster
