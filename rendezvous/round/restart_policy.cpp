// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/restart_policy.hpp"

#include "base/mark.hpp"

#include <fmt/core.h>

namespace muster {

RestartDecision RestartPolicy::decide(const FailureFacts& first) {
  if (first.run_time < kStartupTime) {
    startup_failures_ = first.end == startup_end_ ? startup_failures_ + 1 : 1;
    startup_end_ = first.end;
  } else {
    startup_failures_ = 0;
  }
  if (max_restarts_ == 0) {
    return {};
  }
  if (first.permanent) {
    MUSTER_MARK("no restart of what cannot be executed");
    return {false, "a restart would not help"};
  }
  if (restarts_ >= max_restarts_) {
    return {false, fmt::format("all {} restarts are used up", max_restarts_)};
  }
  if (startup_failures_ >= kStartupFailuresMax) {
    MUSTER_MARK("start-up failures stop the restarts");
    return {false,
            fmt::format("fails at start-up every time ({} times in a row within {}), so the other "
                        "{} restarts are not tried",
                        startup_failures_,
                        describe(kStartupTime),
                        max_restarts_ - restarts_)};
  }
  ++restarts_;
  return {true, fmt::format("restart {} of {}", restarts_, max_restarts_)};
}

}  // namespace muster
