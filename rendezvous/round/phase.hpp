// SPDX-License-Identifier: Apache-2.0
// The phases of a coordinator, what it begins with, and how long nodes are patient. Values.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstddef>
#include <cstdint>
#include <set>

namespace muster {

// What a node that begins to lead knows of the job's past.
struct Lead {
  RoundPtr started;      // the last round that it was told to start; number 0: none
  RoundPtr accepted;     // a later one that it accepted; number 0: none
  RoundPtr base;         // of `accepted`
  bool founder = false;  // owns the first endpoint and begins the job
  bool waited = true;    // a whole lease has passed since the last word of its last coordinator
  TimePoint in_touch_until = TimePoint::min();  // nobody can have formed a round without it before
  std::set<NodeId> gone{};                      // proven so by it before that
  Inheritance inherits{};
};

// A fresh node asks again after such a pause, doubled up to the second one, with jitter.
inline constexpr Duration kSeekPauseFirst = std::chrono::milliseconds(5);
inline constexpr Duration kSeekPauseMost = std::chrono::milliseconds(500);

// Whom we know to live, but who does not lead yet, is asked again soon.
inline constexpr Duration kFollowPause = std::chrono::milliseconds(5);

// A connection may take so long; a fresh node waits so long for an answer.
inline constexpr Duration kConnectTimeout = std::chrono::seconds(5);
inline constexpr Duration kAnswerTimeout = std::chrono::seconds(5);

// While nodes wait, they hear who is there so often, if it changed.
inline constexpr Duration kRollCallInterval = std::chrono::seconds(1);

// A newcomer that does not accept for so long does not hold up the others.
inline constexpr Duration kAcceptTimeout = std::chrono::seconds(1);

// How long the end of a job waits for evidence of its root cause, and for the last node to hear it.
inline constexpr Duration kDetailsTimeout = std::chrono::seconds(1);
inline constexpr Duration kCloseTimeout = std::chrono::seconds(1);

// Failures of one round that are kept.
inline constexpr std::size_t kFailuresMax = 65536;

enum class Phase : std::uint8_t {
  idle,       // leads nobody
  gathering,  // waits for enough nodes that are ready
  proposing,  // waits for all of them to accept
  running,    // the workers of `base` run
  stopping,   // a round has to end: waits until everybody has heard it
  closed,     // the job is over: waits until everybody has heard it
};

}  // namespace muster
