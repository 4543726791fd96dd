// SPDX-License-Identifier: Apache-2.0
// NodeSettings: what the rendezvous of one node is told at its start, and the fractions of a lease
// that the safety rule rests on (rendezvous/README.md). Value type.
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
  std::vector<Endpoint> endpoints;  // as typed, ports filled in; the first one's owner founds
  Duration join_timeout = std::chrono::seconds(600);
  Duration last_call = std::chrono::seconds(30);
  Duration lease = std::chrono::seconds(9);
  std::optional<Duration> join_delay = Duration{};  // none: newcomers wait for the next regroup
  bool allow_split_brain = false;
  bool records = false;                 // RecordRound is carried out
  bool nodes_are_numbered = false;      // by a platform: two with one node_rank are a mistake
  std::vector<std::string> rank_order;  // names; empty: natural order
  std::string local_addr;               // what the workers dial if we are group rank 0; or empty
  int quick_failures = kQuickFailures;  // of the coordinator's own command line
  std::optional<Endpoint> fixed_store;  // static back end: MASTER_ADDR and MASTER_PORT as typed
};

[[nodiscard]] inline RestartLimits limits_of(const NodeSettings& settings) {
  return {settings.terms.max_restarts, settings.quick_failures};
}

// A sign of life each sixth of a lease.
[[nodiscard]] constexpr Duration beat_interval(Duration lease) {
  return lease / 6;
}

// From the sending of the last granted Beat workers may run so long: then they are killed.
[[nodiscard]] constexpr Duration fence_after(Duration lease) {
  return lease * 9 / 20;
}

// A coordinator grants only while a quorum is known to follow it from no longer ago than this.
// Together with fence_after less than a lease: what it granted last has ended before those who
// turn away from it, a whole lease after its last word, can start anything.
[[nodiscard]] constexpr Duration quorum_after(Duration lease) {
  return lease / 2;
}

// Whoever heard a coordinator's word stays with it for a lease; less by what clocks may differ.
[[nodiscard]] constexpr Duration stays_for(Duration lease) {
  return lease * 19 / 20;
}

// The guard kills the workers of an agent that is itself stopped, so long after the grant.
[[nodiscard]] constexpr Duration guard_after(Duration lease) {
  return lease * 19 / 40;
}

}  // namespace muster
