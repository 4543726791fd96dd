// SPDX-License-Identifier: Apache-2.0
// A node's invariants between two events, checked by recounting. Debug builds, tests and the
// simulator run these checks. Without them, a counter that is off by one would show up only as a
// round that never forms, or as a job that ends before its workers do.
#include "base/check.hpp"
#include "rendezvous/round/node_core.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace muster {
namespace {

std::string differ(std::string_view what, std::size_t kept, std::size_t counted) {
  return kept == counted
             ? std::string()
             : fmt::format("{}: counter is {}, actual count is {}", what, kept, counted);
}

// Returns the first text that is not empty.
template <class... Texts>
std::string first_of(Texts&&... texts) {
  std::string found;
  (void)((found = std::forward<Texts>(texts), !found.empty()) || ...);
  return found;
}

}  // namespace

// -- the leader -------------------------------------------------------------------------------

std::string RoundCore::check_counts() const {
  const auto count = [&](auto&& has) {
    return static_cast<std::size_t>(
        std::ranges::count_if(nodes_, [&](const auto& entry) { return has(entry.second); }));
  };
  const auto in = [&](State state) {
    return count([&](const Node& node) { return node.state == state; });
  };
  // accepts_ is meaningful only during a proposal. In all other phases, this check always passes.
  const std::size_t accepts = phase_ != Phase::proposing ? accepts_ : count([&](const Node& node) {
    return node.accepted && is_in(*proposal_, node.info.id);
  });
  return first_of(differ("eligible nodes", eligible_, count(&is_eligible)),
                  differ("ready nodes", ready_, in(State::ready)),
                  differ("running nodes", running_, in(State::running) + in(State::finished)),
                  differ("stopping nodes", stopping_, in(State::stopping)),
                  differ("members that accepted", accepts_, accepts),
                  differ("awaited members", expected_, count_awaited()));
}

std::string RoundCore::check_node(NodeId id, const Node& node) const {
  const auto broken = [&](std::string_view what) {
    return fmt::format("node '{}' {}", node.info.name, what);
  };
  if (node.info.id != id) {
    return broken("is stored under another id");
  }
  if (node.counted != is_eligible(node)) {
    return broken("has a stale eligible flag");
  }
  // In phase closed, end_closed() may already have removed our own connection from links_.
  const auto link = links_.find(node.link);
  const bool listed = link != links_.end() && link->second == id;
  if (node.attached && !listed && phase_ != Phase::closed) {
    return broken("is attached without a connection");
  }
  if (node.attached && losses_.contains(id)) {
    return broken("is both attached and lost");
  }
  if (!node.attached && (node.link != 0 || node.state != State::unknown)) {
    return broken("has a state but no connection");
  }
  if (node.state == State::finished && !finished_.contains(id)) {
    return broken("has finished but is not listed");
  }
  return {};
}

std::string RoundCore::check_losses() const {
  const auto is_placed = [&](const NodeInfo& member) {
    const auto node = nodes_.find(member.id);
    return losses_.contains(member.id) || (node != nodes_.end() && node->second.attached);
  };
  const auto are_placed = [&](const RoundPtr& round) {
    return std::ranges::all_of(round->members, is_placed);
  };
  // A member that is neither attached nor lost would be awaited but never queried, so no round
  // could be formed.
  if (!are_placed(base_) || !std::ranges::all_of(accepted_, are_placed)) {
    return "a member is neither attached nor lost";
  }
  for (const auto& [id, loss] : losses_) {
    // This detects a loss that was changed without a call to count_expected().
    if (loss.gone && !loss.given_up && is_member(id)) {
      return fmt::format("node '{}' is gone but awaited", name_of(id));
    }
  }
  return {};
}

std::string RoundCore::check_phase() const {
  if (phase_ == Phase::idle) {
    return nodes_.empty() && links_.empty() && losses_.empty() ? "" : "is idle but has nodes";
  }
  if (!std::ranges::all_of(base_->members, [&](const auto& node) { return is_in_base(node.id); })) {
    return "a member of the last round has no rank in it";
  }
  if (std::ranges::any_of(accepted_, [&](const auto& round) { return round->id <= base_->id; })) {
    return "an accepted round is older than the last one";
  }
  if (number_ < base_->id.number) {
    return "the latest number is older than the last round";
  }
  if (phase_ == Phase::proposing && proposal_->id <= base_->id) {
    return "proposes an old round";
  }
  if (phase_ == Phase::running && finished_.size() >= base_->members.size()) {
    return "runs although all members have finished";
  }
  if (phase_ == Phase::running &&
      !std::ranges::all_of(finished_, [&](NodeId id) { return is_in_base(id); })) {
    return "a finished node is not a member";
  }
  if ((phase_ == Phase::closed) != close_.has_value()) {
    return "phase closed and the Close message are inconsistent";
  }
  if (verdict_by_ && (phase_ != Phase::stopping || failures_.empty())) {
    return "waits for a verdict without failures";
  }
  return {};
}

std::string RoundCore::check_invariants() const {
  std::string broken = check_phase();
  if (!broken.empty() || phase_ == Phase::idle) {
    return broken;
  }
  for (const auto& [link, id] : links_) {
    const auto node = nodes_.find(id);
    if (node == nodes_.end() || !node->second.attached || node->second.link != link) {
      return fmt::format("connection {} belongs to a node that has a different one or none", link);
    }
    if (dismissed_.contains(link)) {
      return fmt::format("connection {} belongs to a node but is dismissed", link);
    }
  }
  for (const auto& [id, node] : nodes_) {
    if (broken = check_node(id, node); !broken.empty()) {
      return broken;
    }
  }
  return first_of(check_counts(), check_losses());
}

// -- the follower -----------------------------------------------------------------------------

std::string LinkCore::check_work() const {
  if (work_ != Work::none && started_->id.number == 0) {
    return "has workers but no round";
  }
  if (fence_at_ && work_ != Work::running && work_ != Work::ending) {
    return "has a lease but no running workers";
  }
  if (accepted_->id.number > 0 && accepted_->id.number <= started_->id.number) {
    return "accepted a round that is not later than the started one";
  }
  if (accepted_->id.number == 0 && accepted_base_->id.number != 0) {
    return "has a predecessor of an accepted round but no accepted round";
  }
  return {};
}

std::string LinkCore::check_invariants() const {
  const bool tries = state_ == State::connecting || state_ == State::joining;
  if (link_.has_value() != (tries || state_ == State::attached)) {
    return "connection and state are inconsistent";
  }
  if (retry_at_.has_value() != (state_ == State::pausing)) {
    return "retry time and pausing state are inconsistent";
  }
  if (answer_by_.has_value() != (state_ == State::joining && *link_ != 0)) {
    return "answer deadline and joining state are inconsistent";
  }
  if (state_ == State::attached && lost_.id != 0) {
    return "follows a coordinator that it has lost";
  }
  if (walked_ > walk_.size()) {
    return "has passed the last candidate";
  }
  if (!std::ranges::is_sorted(beats_) || (!beats_.empty() && beats_.back().first != beat_)) {
    return "heartbeats are not in order";
  }
  return check_work();
}

// -- both -------------------------------------------------------------------------------------

std::string NodeCore::check_invariants() const {
  for (const auto& [link, hello] : parked_) {
    if (strangers_.contains(link) || round_.knows(link)) {
      return fmt::format("connection {} is parked but also used otherwise", link);
    }
  }
  for (const LinkId link : strangers_) {
    if (round_.knows(link) || link_.owns(link)) {
      return fmt::format("connection {} is a stranger's but also used otherwise", link);
    }
  }
  if (!link_.has_ended() && link_.owns(0) != round_.leads()) {
    return "leading and following itself are inconsistent";
  }
  // settle() attaches parked nodes as soon as this node leads.
  if (!parked_.empty() && round_.leads()) {
    return "leads but has nodes parked";
  }
  return first_of(link_.check_invariants(), round_.check_invariants());
}

// The cost of a full recount is proportional to the number of nodes. With few nodes, the recount
// runs after each event. With many nodes, it runs so rarely that the average cost per event remains
// constant.
void NodeCore::note_step() {
  if constexpr (kChecksInvariants) {
    constexpr std::size_t kShare = 16;
    if (++unchecked_steps_ * kShare < round_.size()) {
      return;
    }
    unchecked_steps_ = 0;
    if (const std::string broken = check_invariants(); !broken.empty()) {
      check_failed(broken, __FILE__, __LINE__);
    }
  }
}

}  // namespace muster
