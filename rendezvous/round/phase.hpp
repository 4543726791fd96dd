// SPDX-License-Identifier: Apache-2.0
// The phases of a coordinator, its initial knowledge, and the timeouts of nodes. Values.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstddef>
#include <cstdint>
#include <set>

namespace muster {

// A new leader's knowledge of the job's past.
struct Lead {
  RoundPtr started;      // the last round that the node was ordered to start; number 0 if none
  RoundPtr accepted;     // a later round that the node accepted; number 0 if none
  RoundPtr base;         // the round before `accepted`
  bool founder = false;  // owns the first endpoint and starts the job
  bool waited = true;    // a whole lease has passed since the previous coordinator's last message
  // Before this time, no round can have been formed without this node.
  TimePoint in_touch_until = TimePoint::min();
  std::set<NodeId> gone{};  // nodes that were proven dead in time
  Inheritance inherits{};
};

// A fresh node retries after a pause. The pause doubles from kSeekPauseFirst up to kSeekPauseMost,
// with jitter.
inline constexpr Duration kSeekPauseFirst = std::chrono::milliseconds(1);
inline constexpr Duration kSeekPauseMost = std::chrono::milliseconds(500);

// The pauses before retrying a lost coordinator that cannot be reached, and one whose guard closes
// the connection.
inline constexpr Duration kLostPause = std::chrono::milliseconds(20);
inline constexpr Duration kGuardPause = std::chrono::microseconds(625);

// The pause before retrying a node that is alive but does not lead yet.
inline constexpr Duration kFollowPause = std::chrono::milliseconds(5);

// The timeouts for a connection attempt, and for the reply to a fresh node.
inline constexpr Duration kConnectTimeout = std::chrono::seconds(5);
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(5);

// How long a founder waits for a leader that claims the job but does not respond. The first limit
// counts from the leader's last claim, the second limit from the leader's first claim. If a
// connection request is lost, each side loses kConnectTimeout.
inline constexpr Duration kClaimHolds = 2 * kConnectTimeout;
inline constexpr Duration kClaimsHoldMost = 12 * kClaimHolds;

// The minimum interval between roll calls to waiting nodes. They are sent only after changes.
inline constexpr Duration kRollCallInterval = std::chrono::seconds(1);

// How long the first round waits for other nodes before it uses one that is a last resort. Nodes of
// one job usually start within this time.
inline constexpr Duration kBetterNodesWait = std::chrono::seconds(3);

// How long a node that rejoins looks for the job, which may have ended in the meantime.
inline constexpr Duration kRejoinTimeout = std::chrono::seconds(30);

// How long the other nodes wait for a newcomer to accept a proposal.
inline constexpr Duration kAcceptTimeout = std::chrono::seconds(1);

// How long a failed job waits for evidence of its root cause, and how long a finished job waits
// until the last node has received the result.
inline constexpr Duration kDetailsTimeout = std::chrono::seconds(1);
inline constexpr Duration kCloseTimeout = std::chrono::seconds(1);

// Limit on the number of failures kept for one round.
inline constexpr std::size_t kFailuresMax = 65536;

enum class Phase : std::uint8_t {
  idle,       // does not lead
  gathering,  // waits for enough ready nodes
  proposing,  // waits until all members accept
  running,    // the workers of `base` run
  stopping,   // the round must end; waits until all nodes have answered
  closed,     // the job is over; waits until all nodes have the result
};

}  // namespace muster
