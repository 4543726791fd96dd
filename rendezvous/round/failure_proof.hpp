// SPDX-License-Identifier: Apache-2.0
// FailureProof: which failures of this node's workers may be the cause of the round's end. The
// first one may, and so may those that happened before this node was told to stop. A worker that
// failed later failed as a consequence, unless its error file proves that its exception is older.
// One that had lost its connection to another worker is always a consequence of what stopped us,
// and the cause only where nobody tells of another failure.
// Asked by NodeCore for every WorkerFailedHere. Pure; value-like.
#pragma once

#include "base/time.hpp"
#include "rendezvous/round/node_events.hpp"

#include <optional>
#include <set>

namespace muster {

class FailureProof {
 public:
  // The workers of a round are started.
  void begin(TimePoint now);

  // They are being stopped, for whatever reason.
  void stop(TimePoint now);

  // Sets `seen_at` to the time at which the worker failed, and `message.consequence`. False: it
  // only did what it was told and is not to be reported.
  [[nodiscard]] bool judge(WorkerFailedHere& failed);

  // Whether the details of this rank's failure are worth sending.
  [[nodiscard]] bool wants_details(std::int32_t rank) const { return reported_.contains(rank); }

 private:
  TimePoint began_at_{};
  std::optional<TimePoint> stopped_at_;  // the first failure, or the request to stop
  std::set<std::int32_t> reported_;      // ranks whose details may be asked for
};

}  // namespace muster
