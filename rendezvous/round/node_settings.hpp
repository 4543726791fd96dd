// SPDX-License-Identifier: Apache-2.0
// NodeSettings: the startup parameters of one node's rendezvous. Also the fractions of a lease on
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
  // Endpoints as typed, with ports. The owner of the first endpoint founds the job.
  std::vector<Endpoint> endpoints;
  Duration join_timeout = std::chrono::seconds(600);
  Duration last_call = std::chrono::seconds(30);
  Duration lease = std::chrono::seconds(9);
  std::optional<Duration> join_delay = Duration{};  // if unset, newcomers wait for a regroup
  bool allow_split_brain = false;
  bool records = false;                 // the shell executes RecordRound
  bool nodes_are_numbered = false;      // the platform assigns node ranks; duplicates are errors
  std::vector<std::string> rank_order;  // node names; if empty, natural order
  std::vector<std::string> addresses;   // of this host, for Hello
  std::string local_addr;               // address for workers if we have group rank 0; may be empty
  int quick_failures = kQuickFailures;  // set on the coordinator's command line
  // Two first failures of rounds on one node within this time make a spare take the node's place. 0
  // means never. Set on the coordinator's command line.
  Duration cool_down = std::chrono::minutes(30);
  // For this long after its start, this node is used only if no other node is available.
  Duration reserve{};
  bool rejoins = false;                 // the job runs already, so this node never founds it
  std::optional<Endpoint> fixed_store;  // static backend: MASTER_ADDR and MASTER_PORT as typed
};

[[nodiscard]] inline RestartLimits limits_of(const NodeSettings& settings) {
  return {settings.terms.max_restarts, settings.quick_failures};
}

// The interval between two heartbeats.
[[nodiscard]] constexpr Duration beat_interval(Duration lease) {
  return lease / 6;
}

// The workers are killed this long after the last granted Beat was sent.
[[nodiscard]] constexpr Duration fence_after(Duration lease) {
  return lease * 9 / 20;
}

// A coordinator grants leases only while it knows that a quorum followed it within this time. The
// sum of quorum_after and fence_after is less than a lease. Nodes that abandon a coordinator do so
// a whole lease after its last message, so the last granted lease has expired before they can start
// workers.
[[nodiscard]] constexpr Duration quorum_after(Duration lease) {
  return lease / 2;
}

// A node follows a coordinator for this long after its last message: a lease minus a margin for
// clock drift.
[[nodiscard]] constexpr Duration stays_for(Duration lease) {
  return lease * 19 / 20;
}

// If the agent itself is paused, its guard kills the workers this long after the grant.
[[nodiscard]] constexpr Duration guard_after(Duration lease) {
  return lease * 19 / 40;
}

}  // namespace muster
