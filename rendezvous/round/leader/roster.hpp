// SPDX-License-Identifier: Apache-2.0
// A coordinator's knowledge of each current or former follower. Values of RoundCore.
#pragma once

#include "rendezvous/round/node_effects.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace muster {

enum class FollowerState : std::uint8_t {
  unknown,   // attached; its state is not known yet
  ready,     // no worker runs; waits for a round
  running,   // in the running round
  stopping,  // has answered Regroup; its workers may still run
  finished,  // all its workers exited successfully
  leaving,   // has announced that it leaves
};

struct Follower {
  NodeInfo info;
  LinkId link = 0;
  Mends mends;  // the last ones that the node knows
  bool attached = false;
  bool live = false;  // the node has answered since it attached
  bool accepted = false;
  bool counted = false;    // one of the nodes that can be members of a round
  bool knows_past = true;  // we know the rounds that it reported
  FollowerState state = FollowerState::unknown;
  std::uint64_t order = 0;            // order of arrival
  TimePoint heard{};                  // last message received
  TimePoint asked{};                  // when Regroup was sent to the node
  std::optional<TimePoint> evidence;  // sending time of the last Pong that the node received
  std::deque<std::pair<std::uint64_t, TimePoint>> pongs;  // unacknowledged: sequence, time sent
  std::optional<TimePoint> granted;                       // time of the last grant
  TimePoint reserve_until = TimePoint::min();             // until then, it is a last resort
};

struct Loss {
  bool gone = false;
  TimePoint silent_since{};  // the node's lease expires one lease period later
  bool over = false;         // the lease expiry has been reported, or the node is forgotten
  bool given_up = false;     // RoundCore no longer waits for the node
  bool late = false;         // proven dead, but it may have been in a round unknown to us
  bool forgotten = false;    // declared dead by the user
};

struct FailureReport {
  NodeId node = 0;
  TimePoint when{};
  Failed message;
};

}  // namespace muster
