// SPDX-License-Identifier: Apache-2.0
// What a coordinator knows of each node that follows it, or did. Values of RoundCore.
#pragma once

#include "rendezvous/round/node_effects.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

namespace muster {

enum class FollowerState : std::uint8_t {
  unknown,   // attached; has not said yet what it does
  ready,     // no worker runs; waits for a round
  running,   // in the running round
  stopping,  // heard that the round ends; its workers may still run
  finished,  // all its workers ended well
  leaving,   // told us that it goes
};

struct Follower {
  NodeInfo info;
  LinkId link = 0;
  bool attached = false;
  bool live = false;  // has answered once since it attached
  bool accepted = false;
  bool counted = false;    // among those of whom a round can be formed
  bool knows_past = true;  // we know the rounds that it named
  FollowerState state = FollowerState::unknown;
  std::uint64_t order = 0;            // of arrival
  TimePoint heard{};                  // last message received
  std::optional<TimePoint> evidence;  // sending time of the last Pong that it has heard
  std::deque<std::pair<std::uint64_t, TimePoint>> pongs;  // sequence, sent
  std::optional<TimePoint> granted;                       // the last time
};

struct Loss {
  bool gone = false;
  TimePoint silent_since{};  // out of lease one lease later
  bool over = false;         // that has come, and was told
  bool given_up = false;     // is not among those whom RoundCore awaits
  bool late = false;         // proven gone, but it may have been in a round that we do not know of
  bool forgotten = false;    // declared dead by the user
};

struct FailureReport {
  NodeId node = 0;
  TimePoint when{};
  Failed message;
};

}  // namespace muster
