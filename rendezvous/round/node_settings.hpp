// SPDX-License-Identifier: Apache-2.0
// NodeSettings: the start parameters of one node's rendezvous, and the fractions of a lease on
// which the safety rule is based (rendezvous/README.md). Value type.
#pragma once

#include "base/endpoint.hpp"
#include "base/time.hpp"
#include "rendezvous/round/restart_policy.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <optional>
#include <string>
#include <vector>

namespace muster {

struct NodeSettings {
  JobTerms terms;
  std::vector<Endpoint> endpoints;  // as typed, with ports filled in; the owner of the first one
                                    // founds
  Duration join_timeout = std::chrono::seconds(600);
  Duration last_call = std::chrono::seconds(30);
  Duration lease = std::chrono::seconds(9);
  std::optional<Duration> join_delay = Duration{};  // nullopt: newcomers wait for the next regroup
  bool allow_split_brain = false;
  bool records = false;                 // the shell executes RecordRound
  bool nodes_are_numbered = false;      // by a platform; two nodes with one node_rank are an error
  std::vector<std::string> rank_order;  // names; natural order if empty
  std::string local_addr;               // address for workers if we are group rank 0; may be empty
  int quick_failures = kQuickFailures;  // from the coordinator's own command line
  std::optional<Endpoint> fixed_store;  // static back end: MASTER_ADDR and MASTER_PORT as typed
};

[[nodiscard]] inline RestartLimits limits_of(const NodeSettings& settings) {
  return {settings.terms.max_restarts, settings.quick_failures};
}

// Heartbeat interval.
[[nodiscard]] constexpr Duration beat_interval(Duration lease) {
  return lease / 6;
}

// Workers are killed this long after the last granted Beat was sent.
[[nodiscard]] constexpr Duration fence_after(Duration lease) {
  return lease * 9 / 20;
}

// A coordinator grants leases only while a quorum is known to have followed it within this time.
// Plus fence_after, this is less than a lease. So the last lease has expired before nodes that
// abandoned the coordinator, a whole lease after its last message, can start anything.
[[nodiscard]] constexpr Duration quorum_after(Duration lease) {
  return lease / 2;
}

// A node that received a coordinator's message follows it for a lease, minus a margin for clock
// drift.
[[nodiscard]] constexpr Duration stays_for(Duration lease) {
  return lease * 19 / 20;
}

// If the agent itself is stopped, its guard kills the workers this long after the grant.
[[nodiscard]] constexpr Duration guard_after(Duration lease) {
  return lease * 19 / 40;
}

}  // namespace muster
