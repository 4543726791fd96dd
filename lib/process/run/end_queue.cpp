// SPDX-License-Identifier: Apache-2.0
#include "process/run/end_queue.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

namespace muster {
namespace {

bool has_failed(const WorkerEnd& end) {
  return !end.exit.status.success();
}

// These signals do not result from the death of another process. A worker that fails as a
// consequence exits with a code, calls abort(), or gets SIGPIPE from a closed connection.
bool is_killed(const WorkerEnd& end) {
  const ExitStatus& status = end.exit.status;
  return status.signaled && status.value != SIGABRT && status.value != SIGPIPE;
}

// A lower value means an earlier exit. If a worker was already exiting when another failed worker
// was reaped, it started to exit first and merely takes longer to free its memory.
int order_of(const WorkerEnd& end) {
  const int kind = !has_failed(end) ? 2 : is_killed(end) ? 0 : 1;
  return 2 * kind + (end.reaped && !end.seen_ending ? 1 : 0);
}

}  // namespace

bool EndQueue::needs_look() const {
  return !judged_ && std::ranges::any_of(ends_, has_failed);
}

std::vector<WorkerEnd> EndQueue::take(TimePoint now, bool unknown) {
  if (needs_look()) {
    held_until_ = held_until_.value_or(now + kUnknownEndTime);
    if (unknown && now < *held_until_) {
      return {};
    }
    judged_ = true;
    std::ranges::stable_sort(ends_, {}, order_of);
  }
  held_until_.reset();
  return std::exchange(ends_, {});
}

}  // namespace muster
