// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/failure_proof.hpp"

#include <algorithm>

namespace muster {

void FailureProof::begin(TimePoint now) {
  began_at_ = now;
  stopped_at_.reset();
  reported_.clear();
}

void FailureProof::stop(TimePoint now) {
  if (!stopped_at_) {
    stopped_at_ = now;
  }
}

bool FailureProof::judge(WorkerFailedHere& failed) {
  // The clock behind the file's timestamp may be wrong, so clamp the time to the interval from
  // worker start to exit.
  const TimePoint raised = std::min(failed.raised_at.value_or(failed.seen_at), failed.seen_at);
  failed.seen_at = std::max(raised, began_at_);
  const bool is_older = stopped_at_ && failed.seen_at <= *stopped_at_;
  const bool proven = !stopped_at_ || (is_older && !failed.lost_connection);
  if (!proven && failed.was_stopped) {
    return false;
  }
  // Later failures may be consequences of the first one, even before any stop request.
  stop(failed.seen_at);
  failed.message.consequence = !proven;
  if (proven || failed.lost_connection) {
    reported_.insert(failed.message.rank);
  }
  return true;
}

}  // namespace muster
