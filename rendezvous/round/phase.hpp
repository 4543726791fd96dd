// SPDX-License-Identifier: Apache-2.0
// The coordinator's phases, its initial knowledge, and timeouts of nodes. Values.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstddef>
#include <cstdint>
#include <set>

namespace muster {

// What a node that starts to lead knows about the job's past.
struct Lead {
  RoundPtr started;      // the last round that it was told to start; number 0 if none
  RoundPtr accepted;     // a later one that it accepted; number 0 if none
  RoundPtr base;         // the round before `accepted`
  bool founder = false;  // owns the first endpoint and begins the job
  bool waited = true;    // a whole lease has passed since its last coordinator's last message
  TimePoint in_touch_until = TimePoint::min();  // no round can have been formed without it before
                                                // this
  std::set<NodeId> gone{};                      // nodes that it had proven dead in time
  Inheritance inherits{};
};

// A fresh node retries after a pause that doubles from the first value to the second, with jitter.
inline constexpr Duration kSeekPauseFirst = std::chrono::milliseconds(5);
inline constexpr Duration kSeekPauseMost = std::chrono::milliseconds(500);

// Pause before retrying a node that is alive but does not lead yet.
inline constexpr Duration kFollowPause = std::chrono::milliseconds(5);

// Timeouts for a connection attempt, and for a reply to a fresh node.
inline constexpr Duration kConnectTimeout = std::chrono::seconds(5);
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(5);

// A founder waits so long for a leader that claims the job but does not answer: after its last
// claim, and after its first one. A lost connection request costs kConnectTimeout on each side.
inline constexpr Duration kClaimHolds = 2 * kConnectTimeout;
inline constexpr Duration kClaimsHoldMost = 12 * kClaimHolds;

// Interval of roll calls to waiting nodes, if something has changed.
inline constexpr Duration kRollCallInterval = std::chrono::seconds(1);

// After this time the others no longer wait for a newcomer to accept.
inline constexpr Duration kAcceptTimeout = std::chrono::seconds(1);

// How long a job that ends waits for evidence of its root cause, and for the last node to learn it.
inline constexpr Duration kDetailsTimeout = std::chrono::seconds(1);
inline constexpr Duration kCloseTimeout = std::chrono::seconds(1);

// Maximum number of failures kept for one round.
inline constexpr std::size_t kFailuresMax = 65536;

enum class Phase : std::uint8_t {
  idle,       // does not lead
  gathering,  // waits for enough ready nodes
  proposing,  // waits until all members accept
  running,    // the workers of `base` run
  stopping,   // the round must end; waits until all nodes know it
  closed,     // the job is over; waits until all nodes know it
};

}  // namespace muster
