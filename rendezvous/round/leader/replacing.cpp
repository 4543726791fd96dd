// SPDX-License-Identifier: Apache-2.0
// RoundCore and nodes that fail often: a spare takes the place of a node on which the first failure
// of two rounds happened within the cool-down. The node leaves and may join again, but for another
// cool-down it is a last resort.
#include "base/mark.hpp"
#include "rendezvous/round/leader/round_core.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {

bool RoundCore::is_last_resort(TimePoint now, const Node& node) {
  return now < node.reserve_until;
}

std::size_t RoundCore::count_last_resorts(TimePoint now) const {
  return static_cast<std::size_t>(std::ranges::count_if(nodes_, [&](const auto& entry) {
    return is_eligible(entry.second) && is_last_resort(now, entry.second);
  }));
}

// True if a node outside of the last round is ready and did not fail often itself.
bool RoundCore::has_spare(TimePoint now) const {
  return std::ranges::any_of(nodes_, [&](const auto& entry) {
    const Node& node = entry.second;
    return is_eligible(node) && !is_in_base(entry.first) && !is_last_resort(now, node);
  });
}

// True if a spare would take the place of the node after one more first failure.
bool RoundCore::is_due(TimePoint now, NodeId node, const Failed& failed) const {
  return settings_.cool_down != Duration{} && !failed.node_cause.empty() && has_spare(now) &&
         !first_failures_.has_moved(now, {node, failed.rank, failed.node_cause}) &&
         first_failures_.count(now, node) + 1 >= kFirstFailuresOfSuspect;
}

// A node judges once per round, and names the cause only in the failure that it reported first.
std::string RoundCore::node_cause_of(const Failure& first) const {
  const auto found = std::ranges::find_if(failures_, [&](const Failure& failure) {
    return failure.node == first.node && !failure.message.node_cause.empty();
  });
  const bool is_first = !first.message.consequence && found != failures_.end();
  return is_first ? found->message.node_cause : std::string();
}

// The count is lost with this leader: another one begins again. A member that is lost now needs no
// order to leave.
void RoundCore::note_first_failure(TimePoint now, const FirstFailure& failure, NodeEffects& out) {
  const auto& [id, rank, cause] = failure;
  if (settings_.cool_down == Duration{} || cause.empty()) {
    return;
  }
  // Without a spare, a signal that repeats proves nothing against the node.
  if (first_failures_.has_moved(now, failure) || (cause == kRepeatedSignal && !has_spare(now))) {
    return;
  }
  const std::size_t count = first_failures_.note(now, failure);
  const auto found = nodes_.find(id);
  const bool is_here = found != nodes_.end() && found->second.attached;
  const bool is_replaced = phase_ == Phase::stopping && is_here && has_spare(now);
  if (count < kFirstFailuresOfSuspect || (!is_replaced && count > kFirstFailuresOfSuspect)) {
    return;  // without a spare, the user learns it once
  }
  if (!is_replaced && cause == kRepeatedSignal) {
    return;  // only another node can show whether the reason is this one
  }
  const std::string name = name_of(id);
  const std::string what = fmt::format("the first failure of {} rounds within {} was on node '{}'",
                                       count,
                                       muster::describe(settings_.cool_down),
                                       name);
  out.emplace_back(SuspectNode{name, cause, what, is_replaced});
  if (is_replaced) {
    MUSTER_MARK("a node is replaced by a spare");
    set_state(found->second, State::leaving);
    send(found->second.link, Dismiss{what}, out);
  }
}

}  // namespace muster
