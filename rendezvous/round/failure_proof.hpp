// SPDX-License-Identifier: Apache-2.0
// FailureProof: decides which failures of this node's workers may have ended the round. These are
// the first failure and all failures before this node was asked to stop. Later failures are
// consequences, unless an error file proves that the exception was raised earlier. After a stop
// request, a worker that had lost its connection to another worker always counts as a consequence.
// It is the cause only if no other failure is reported. NodeCore calls this for every
// WorkerFailedHere. Pure; value-like.
#pragma once

#include "base/time.hpp"
#include "rendezvous/round/node_events.hpp"

#include <optional>
#include <set>

namespace muster {

class FailureProof {
 public:
  // The workers of a round are being started.
  void begin(TimePoint now);

  // The workers are being stopped, for any reason.
  void stop(TimePoint now);

  // Sets `seen_at` to the time of the failure, and sets `message.consequence`. Returns false if the
  // worker only obeyed a stop request; such a failure is not reported.
  [[nodiscard]] bool judge(WorkerFailedHere& failed);

  // True if the details of this rank's failure should be sent.
  [[nodiscard]] bool wants_details(std::int32_t rank) const { return reported_.contains(rank); }

 private:
  TimePoint began_at_{};
  std::optional<TimePoint> stopped_at_;  // first failure or stop request
  std::set<std::int32_t> reported_;      // ranks whose details may be sent
};

}  // namespace muster
