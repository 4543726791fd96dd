// SPDX-License-Identifier: Apache-2.0
// FailureProof: decides whether the failure of a worker on this node may have ended the round. Only
// the first failure may have ended it, and only if this node had not been asked to stop. Later
// failures are consequences, unless an error file proves that the exception was raised earlier. A
// worker that had lost its connection to another worker has no such proof. Its failure is the cause
// only if no other failure is reported. NodeCore calls this for every WorkerFailedHere. Pure;
// value-like.
#pragma once

#include "base/time.hpp"
#include "rendezvous/round/node_events.hpp"

#include <optional>
#include <set>

namespace muster {

class FailureProof {
 public:
  // Call when the workers of a round are started.
  void begin(TimePoint now);

  // Call when the workers are stopped, for any reason.
  void stop(TimePoint now);

  // Sets `seen_at` to the time of the failure, and sets `message.consequence`. Returns false if the
  // worker only obeyed a stop request; such a failure is not reported.
  [[nodiscard]] bool judge(WorkerFailedHere& failed);

  // True if the details of this rank's failure should be sent.
  [[nodiscard]] bool wants_details(std::int32_t rank) const { return reported_.contains(rank); }

 private:
  TimePoint began_at_{};
  std::optional<TimePoint> stopped_at_;  // time of the first failure or stop request
  std::set<std::int32_t> reported_;      // ranks whose details may be sent
};

}  // namespace muster
