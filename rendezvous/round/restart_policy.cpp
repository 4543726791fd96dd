// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/restart_policy.hpp"

#include "base/mark.hpp"

#include <fmt/core.h>

namespace muster {

// A job normally gets all of its --max-restarts. The only exception is a program that has never got
// past its startup phase: there is no point in retrying the same failing import a hundred times.
void RestartPolicy::count_quick(const Failed& first) {
  if (first.run_time >= kQuickFailureTime) {
    past_start_ = true;
  }
  if (past_start_ || !first.exited) {
    quick_ = 0;
    return;
  }
  // Only equal failures in a row show that the program never gets past its startup.
  quick_ = first.exit_code == quick_code_ ? quick_ + 1 : 1;
  quick_code_ = first.exit_code;
}

RestartDecision RestartPolicy::decide(const Failed& first) {
  count_quick(first);
  const int max_restarts = limits_.max_restarts;
  if (max_restarts == 0) {
    return {};
  }
  if (first.permanent) {
    MUSTER_MARK("no restart of what cannot be executed");
    return {false, "a restart would not help"};
  }
  if (restarts_ >= max_restarts) {
    return {false, fmt::format("all {} restarts are used up", max_restarts)};
  }
  if (limits_.quick_failures > 0 && quick_ >= limits_.quick_failures) {
    MUSTER_MARK("quick failures stop the restarts");
    return {false,
            fmt::format("fails at startup every time ({} times in a row within {}); skipping the "
                        "remaining {} restarts. Use --quick-failures=off to try them",
                        quick_,
                        describe(kQuickFailureTime),
                        max_restarts - restarts_)};
  }
  ++restarts_;
  return {true, fmt::format("restart {} of {}", restarts_, max_restarts)};
}

}  // namespace muster
