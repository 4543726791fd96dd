// SPDX-License-Identifier: Apache-2.0
// Followers and lost nodes. Other parts of RoundCore: joining.cpp, asking.cpp, forming.cpp,
// running.cpp.
#include "rendezvous/round/leader/round_core.hpp"

#include "base/check.hpp"
#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "rendezvous/round/leader/ranking.hpp"
#include "rendezvous/round/send_to.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace muster {
namespace {

// Queries use the link ids 3, 7, 11, …, and LinkCore uses 1, 5, 9, … So the two classes assign odd
// ids independently.
constexpr LinkId kFirstQuestion = 3;
// Limits the memory for a follower that acknowledges nothing. With six heartbeats per lease, a
// dropped entry is older than two leases, which is too old for a quorum or for stays_for().
constexpr std::size_t kPongsMax = 16;

RoundPtr no_round() {
  static const RoundPtr none = std::make_shared<const Round>();
  return none;
}

}  // namespace

RoundCore::RoundCore(NodeSettings settings, const NodeInfo& self)
    : settings_(std::move(settings)),
      self_(self),
      base_(no_round()),
      proposal_(no_round()),
      policy_(limits_of(settings_)),
      first_failures_(settings_.cool_down),
      asker_(kFirstQuestion) {}

void RoundCore::set_self(const NodeInfo& self) {
  self_ = self;
  if (const auto node = nodes_.find(self.id); node != nodes_.end()) {
    node->second.info = self;
  }
}

void RoundCore::lead(TimePoint now, const Lead& lead, NodeEffects& out) {
  MUSTER_CHECK(phase_ == Phase::idle);
  founder_ = lead.founder;
  phase_ = Phase::gathering;
  phase_since_ = now;
  quiet_since_ = lead.waited ? TimePoint::min() : now;
  in_touch_until_ = lead.in_touch_until;
  gone_in_time_ = lead.gone;
  inherits_ = lead.inherits;
  confirmed_ = !lead.inherits.unconfirmed && lead.started->id.number > 0;
  scan_due_ = now + settings_.lease / 16;
  roll_call_due_ = now + kRollCallInterval;
  learn_rounds(now, Rounds{lead.started, lead.accepted, lead.base});
  for (std::size_t i = 0; i < settings_.endpoints.size(); ++i) {
    if (!founder_ || i > 0) {  // the endpoint that the founder owns needs no query
      asker_.want_endpoint(now, i, settings_.endpoints[i]);
      if (founder_ || !confirmed_) {
        unchecked_endpoints_.insert(i);
      }
    }
  }
  ask_around(now, out);
}

void RoundCore::yield_to(const NodeInfo& other, NodeEffects& out) {
  MUSTER_MARK("a leader yields to a stronger one");
  // A follower that is redirected by its own leader need not wait for a lease before it follows the
  // other leader (LinkCore::released).
  for (const auto& [link, id] : links_) {
    if (link != 0) {
      send(link, Redirect{other}, out);
      out.emplace_back(CloseLink{link});
    }
  }
  asker_.forget_all(out);
  Asker asker = std::move(asker_);  // keep the Asker, because link ids must never be reused
  *this = RoundCore(settings_, self_);
  asker_ = std::move(asker);
}

// Members of earlier rounds that do not follow us are queried until they join or are proven dead.
void RoundCore::await_missing(TimePoint now) {
  const auto look = [&](const Round& round) {
    for (const NodeInfo& member : round.members) {
      const auto found = nodes_.find(member.id);
      const bool here = found != nodes_.end() && found->second.attached;
      if (member.id != self_.id && !here && !losses_.contains(member.id)) {
        losses_[member.id] = Loss{false, quiet_since_, false, false};
        asker_.want(now, member);
      }
    }
  };
  look(*base_);
  for (const RoundPtr& round : accepted_) {
    look(*round);
  }
}

void RoundCore::receive(TimePoint now, LinkId link, const RoundMessage& message, NodeEffects& out) {
  Node* const node = node_of(link);
  if (node == nullptr) {
    return;
  }
  node->heard = now;
  if (const auto* said = std::get_if<Beat>(&message)) {
    beat(now, *node, *said, out);
  } else if (const auto* ready = std::get_if<Ready>(&message)) {
    note_ready(now, *node, *ready, out);
  } else if (const auto* accepting = std::get_if<Accept>(&message)) {
    accept(now, *node, *accepting, out);
  } else if (const auto* failed = std::get_if<Failed>(&message)) {
    note_failure(now, *node, *failed, out);
  } else if (const auto* details = std::get_if<Details>(&message)) {
    note_details(*node, *details);
  } else if (std::holds_alternative<Stopping>(message)) {
    if (phase_ == Phase::stopping &&
        (node->state == State::running || node->state == State::finished)) {
      set_state(*node, State::stopping);
    }
  } else if (const auto* finished = std::get_if<Finished>(&message)) {
    note_finish(now, *node, *finished, out);
  } else if (const auto* leave = std::get_if<Leave>(&message)) {
    note_leave(now, *node, *leave, out);
  } else if (const auto* lacking = std::get_if<Lacking>(&message)) {
    note_lacking(now, *node, *lacking, out);
  } else if (const auto* mended = std::get_if<Mended>(&message)) {
    note_mended(*node, *mended);
  } else if (const auto* rounds = std::get_if<Rounds>(&message)) {
    take_rounds(now, *node, *rounds, out);
  }
  evaluate(now, out);
}

// While a quorum of the running round follows us, no other node can have formed a later round. So
// if a non-member claims to know a later round, the claim is false.
bool RoundCore::is_outsider(TimePoint now, NodeId id) {
  return phase_ == Phase::running && !settings_.allow_split_brain && !is_member(id) &&
         has_quorum(now);
}

void RoundCore::take_rounds(TimePoint now, Node& node, const Rounds& rounds, NodeEffects& out) {
  const bool later = rounds.started && rounds.started->id > base_->id;
  const auto is_its_own = [&](const RoundPtr& round) {
    return !round || round->id.number == 0 || is_in(*round, node.info.id);
  };
  // A node accepts a round only if it is a member, so any other answer is false.
  if (!is_its_own(rounds.started) || !is_its_own(rounds.accepted) ||
      (later && is_outsider(now, node.info.id))) {
    return;  // knows_past stays false, so no round includes the node
  }
  const bool is_founded =
      base_->id.number == 0 && rounds.accepted && rounds.accepted->id.number > 0;
  // Our proposal may lack a quorum of this round, because we did not know the round.
  if ((later || is_founded) && phase_ == Phase::proposing) {
    abandon_for_other(now, out);
  }
  if (later && phase_ == Phase::running) {
    regroup(now, {"a later round was formed elsewhere"}, true, out);
  }
  node.knows_past = true;
  recount(node);
  learn_rounds(now, rounds);
}

void RoundCore::beat(TimePoint now, Node& node, const Beat& said, NodeEffects& out) {
  node.live = true;
  recount(node);
  // An acknowledged reply reached this node while it followed us. We do not know when, so only the
  // time at which we sent the reply is certain.
  while (!node.pongs.empty() && node.pongs.front().first <= said.heard) {
    node.evidence = std::max(node.evidence.value_or(TimePoint::min()), node.pongs.front().second);
    node.pongs.pop_front();
  }
  // A node without workers gets no lease if the next round may omit it (leaves_out_granted). A
  // member that returns while a round without it is being proposed gets no lease either.
  const NodeId id = node.info.id;
  const bool stays = is_in_base(id) || (node.state != State::ready && is_member(id));
  const bool is_omitted = phase_ == Phase::proposing && !is_in(*proposal_, id);
  const bool granted = stays && !is_omitted && (has_quorum(now) || MUSTER_MUTATE("quorum ignored"));
  node.granted = granted ? now : node.granted;
  send(node.link, Pong{said.sequence, granted}, out);
  node.pongs.emplace_back(said.sequence, now);
  if (node.pongs.size() > kPongsMax) {
    node.pongs.pop_front();
  }
}

void RoundCore::set_state(Node& node, State state) {
  const auto tally = [this](State which, std::size_t step) {
    ready_ += which == State::ready ? step : 0;
    running_ += which == State::running || which == State::finished ? step : 0;
    stopping_ += which == State::stopping ? step : 0;
  };
  tally(node.state, static_cast<std::size_t>(-1));
  tally(state, 1);
  node.state = state;
  recount(node);
}

// Called after each change to eligibility. Recounting for each message would be quadratic.
void RoundCore::recount(Node& node) {
  if (is_eligible(node) != node.counted) {
    node.counted = !node.counted;
    eligible_ += node.counted ? 1 : static_cast<std::size_t>(-1);
  }
}

// -- losing nodes -----------------------------------------------------------------------------

void RoundCore::link_ended(TimePoint now, LinkId link, NodeEffects& out) {
  const auto found = links_.find(link);
  if (found == links_.end()) {
    // The connection of a dismissed node has ended. The end of the job waits for this (evaluate).
    dismissed_.erase(link);
    evaluate(now, out);
    return;
  }
  lose(now, found->second, out);
  ask_around(now, out);
  evaluate(now, out);
}

// The connection is lost. The lease, or the node's kernel, decides whether the node is dead.
void RoundCore::lose(TimePoint now, NodeId id, NodeEffects& out) {
  Node& node = nodes_.at(id);
  links_.erase(node.link);
  node.attached = false;
  node.link = 0;
  recount(node);
  if (phase_ == Phase::proposing && is_in(*proposal_, id)) {
    abandon(now, out);  // must come first, because this may make the node a member
  }
  const bool was_leaving = node.state == State::leaving;
  set_state(node, State::unknown);
  if (!is_member(id)) {
    forget(id);
  } else if (!losses_.contains(id)) {
    // If the job has ended, do not wait for the node.
    const bool was_told_the_end = phase_ == Phase::closed;
    // The lease expires one lease after the node's last message, not after its connection was lost.
    losses_[id] = Loss{false, node.heard, was_told_the_end, false};
    if (!was_told_the_end) {
      asker_.want(now, node.info);
    }
  }
  if (was_leaving) {
    MUSTER_MARK("a node that leaves loses its connection first");
  }
}

void RoundCore::forget(NodeId id) {
  const auto found = nodes_.find(id);
  if (found != nodes_.end()) {
    set_state(found->second, State::unknown);
    if (found->second.attached) {  // otherwise the node's link is 0, which is our own link
      links_.erase(found->second.link);
    }
    nodes_.erase(found);
  }
}

// Proof of a node's death does not show what the node did before it died. The proof counts for a
// quorum only if the node cannot have accepted a round that is unknown to us. That is the case if
// the node was still bound to follow us, if no round can have been formed without us so far, or if
// we proved the death in time while we were a follower.
bool RoundCore::is_in_time(TimePoint now, NodeId gone) const {
  const auto node = nodes_.find(gone);
  const bool followed = node != nodes_.end() && node->second.knows_past && node->second.evidence &&
                        now < *node->second.evidence + stays_for(settings_.lease);
  return followed || now < in_touch_until_ || gone_in_time_.contains(gone) ||
         MUSTER_MUTATE("late proof counts");
}

// The node and its workers are proven dead.
void RoundCore::bury(TimePoint now, NodeId id, NodeEffects& out) {
  // Read these first: both use the node's entry, which forget() erases.
  const std::string name = name_of(id);
  const bool in_time = is_in_time(now, id);
  asker_.forget(id, out);
  const auto found = nodes_.find(id);
  if (found != nodes_.end() && found->second.attached) {
    out.emplace_back(CloseLink{found->second.link});
    lose(now, id, out);
    // lose() has just added the node to the queries again.
    asker_.forget(id, out);
  }
  forget(id);
  if (!is_member(id)) {
    return;
  }
  losses_[id].gone = true;
  losses_[id].late = !in_time;
  note_loss(now, id, fmt::format("node '{}' is gone", name), out);
}

void RoundCore::note_loss(TimePoint now, NodeId id, const std::string& reason, NodeEffects& out) {
  count_expected(now);
  if (phase_ == Phase::running && is_in_base(id)) {
    regroup(now, {reason, ranks_of(*base_, id)}, true, out);
  } else if (phase_ == Phase::stopping) {
    membership_changed_ = true;
  }
}

// A healthy node answers Regroup immediately. A node that sends heartbeats but no answer is broken
// or does not belong to this job. We wait for it no longer than for a silent node.
void RoundCore::drop_deaf(TimePoint now, NodeEffects& out) {
  if (phase_ != Phase::stopping || running_ == 0) {
    return;
  }
  std::vector<NodeId> deaf;
  for (const auto& [id, node] : nodes_) {
    const bool answers = node.state != State::running && node.state != State::finished;
    const bool had_time = now >= node.asked + settings_.lease;
    if (node.attached && id != self_.id && !answers && had_time) {
      deaf.push_back(id);
    }
  }
  for (const NodeId id : deaf) {
    deaf_.insert(id);
    out.emplace_back(CloseLink{nodes_.at(id).link});
    lose(now, id, out);
  }
}

std::optional<LinkId> RoundCore::live_link_of(TimePoint now, NodeId id) const {
  const auto found = nodes_.find(id);
  const bool is_live = found != nodes_.end() && found->second.attached &&
                       now < found->second.heard + settings_.lease / 2;
  return is_live ? std::optional(found->second.link) : std::nullopt;
}

// Finds silent nodes. Checking all nodes a few times per lease is cheap enough.
void RoundCore::scan(TimePoint now, NodeEffects& out) {
  scan_due_ = now + settings_.lease / 16;
  // Collect the silent nodes first, because lose() may erase nodes.
  std::vector<NodeId> silent;
  for (const auto& [id, node] : nodes_) {
    if (node.attached && id != self_.id && node.heard + settings_.lease <= now) {
      silent.push_back(id);
    }
  }
  for (const NodeId id : silent) {
    MUSTER_MARK("a connected node has been silent for a lease");
    out.emplace_back(CloseLink{nodes_.at(id).link});
    lose(now, id, out);
  }
  drop_slow_newcomers(now, out);
  drop_deaf(now, out);
  for (auto& [id, loss] : losses_) {
    if (!loss.gone && !loss.over && out_of_lease(now, id)) {
      MUSTER_MARK("a lease ended");
      loss.over = true;
      note_loss(
          now,
          id,
          fmt::format(
              "node '{}' has been silent for {}", name_of(id), muster::describe(settings_.lease)),
          out);
    }
  }
  count_expected(now);
}

bool RoundCore::out_of_lease(TimePoint now, NodeId id) const {
  const auto found = losses_.find(id);
  if (found == losses_.end() || found->second.gone || found->second.forgotten ||
      MUSTER_MUTATE("silent members forgotten")) {
    return found != losses_.end();
  }
  // TimePoint::min() means that we waited a whole lease before we began to lead, so no earlier
  // lease is still valid.
  const TimePoint last = std::max(found->second.silent_since, quiet_since_);
  return last == TimePoint::min() || now >= last + settings_.lease;
}

// -- helpers ----------------------------------------------------------------------------------

void RoundCore::set_base(RoundPtr base) {
  base_ = std::move(base);
  quorum_until_.reset();
  quorum_checked_ = TimePoint::min();
  places_.clear();
  ranks_first_.clear();
  // The sum may exceed 32 bits (see ranks_of).
  std::int64_t rank = 0;
  for (const NodeInfo& member : base_->members) {
    places_.emplace(member.id, ranks_first_.size());
    ranks_first_.push_back(static_cast<std::int32_t>(std::min<std::int64_t>(rank, INT32_MAX)));
    rank += member.nproc;
  }
}

bool RoundCore::is_in(const Round& round, NodeId id) {
  return std::ranges::find(round.members, id, &NodeInfo::id) != round.members.end();
}

bool RoundCore::is_member(NodeId id) const {
  return is_in_base(id) ||
         std::ranges::any_of(accepted_, [&](const RoundPtr& round) { return is_in(*round, id); });
}

std::string RoundCore::name_of(NodeId id) const {
  if (const auto node = nodes_.find(id); node != nodes_.end()) {
    return node->second.info.name;
  }
  const auto place = places_.find(id);
  return place != places_.end() ? base_->members[place->second].name : std::string("?");
}

RoundCore::Node* RoundCore::node_of(LinkId link) {
  const auto found = links_.find(link);
  return found == links_.end() ? nullptr : &nodes_.at(found->second);
}

void RoundCore::send(LinkId link, RoundMessage message, NodeEffects& out) {
  send_to(link, std::move(message), out);
}

void RoundCore::tick(TimePoint now, NodeEffects& out) {
  if (phase_ == Phase::idle) {
    return;
  }
  ask_around(now, out);
  if (!unchecked_endpoints_.empty() && now >= phase_since_ + kAskTimeout) {
    unchecked_endpoints_.clear();  // the listener there does not answer, so stop waiting
  }
  if (now >= scan_due_) {
    scan(now, out);
  }
  evaluate(now, out);
}

std::optional<TimePoint> RoundCore::next_deadline() const {
  if (phase_ == Phase::idle) {
    return std::nullopt;
  }
  // The conditions that are not listed here are evaluated with the scan, 16 times per lease.
  TimePoint next = scan_due_;
  const auto also = [&next](std::optional<TimePoint> when) {
    next = when ? std::min(next, *when) : next;
  };
  also(asker_.next_deadline());
  also(verdict_by_);
  if (phase_ == Phase::gathering) {
    also(roll_call_due_);
    also(short_by());
    if (enough_since_) {
      also(*enough_since_ + settings_.last_call);
    }
    if (!unchecked_endpoints_.empty()) {
      also(phase_since_ + kAskTimeout);
    }
  }
  if (phase_ == Phase::running && newcomer_since_ && settings_.join_delay) {
    also(*newcomer_since_ + *settings_.join_delay);
  }
  if (phase_ == Phase::closed) {
    also(phase_since_ + kCloseTimeout);
  }
  return next;
}

std::string RoundCore::describe() const {
  static constexpr std::array kNames{
      "idle", "gathering", "proposing", "running", "stopping", "closed"};
  return fmt::format("{} round={} size={} nodes={} ready={} running={} lost={} restarts={}",
                     kNames.at(static_cast<std::size_t>(phase_)),
                     base_->id.number,
                     base_->members.size(),
                     nodes_.size(),
                     ready_,
                     running_,
                     losses_.size(),
                     restart_count_);
}

}  // namespace muster
