// SPDX-License-Identifier: Apache-2.0
// RestartPolicy: after a failed attempt, decides whether to restart all workers of the job or to
// give up, and why. Called once for each failed attempt, by the coordinator of a multi-node job or
// by LocalRounds in a single-node job. A separate module, because neither of them may include the
// other. Pure; value-like.
#pragma once

#include "base/time.hpp"

#include <string>

namespace muster {

// A failure is quick if it happens within this time after the last worker was started: a wrong
// import or a missing file shows up within the seconds that Python needs to import its modules.
inline constexpr Duration kQuickFailureTime = std::chrono::seconds(5);

// The default of --quick-failures: this number of quick failures in a row ends the job.
inline constexpr int kQuickFailures = 3;

// The first failure of an attempt.
struct FailureFacts {
  std::string end;         // "exited with code 7"; equal texts mean equal failures
  bool permanent = false;  // no restart can help: the program cannot be executed
  Duration run_time{};     // from the start of the last worker to the failure
  bool exited = false;     // with its own exit code, not by a signal: see is_own_exit
};

// Whether the worker exited by itself with a non-zero code. Shells use 128 + n to report that their
// child was killed by signal n, so these codes count as signals.
[[nodiscard]] bool is_own_exit(bool signaled, int code);

struct RestartLimits {
  int max_restarts = 0;
  int quick_failures = kQuickFailures;  // 0: off
  bool operator==(const RestartLimits&) const = default;
};

struct RestartDecision {
  bool restart = false;
  std::string reason;  // for users; empty if no restart was configured
  bool operator==(const RestartDecision&) const = default;
};

class RestartPolicy {
 public:
  explicit RestartPolicy(RestartLimits limits, int used = 0) : limits_(limits), restarts_(used) {}

  [[nodiscard]] RestartDecision decide(const FailureFacts& first);

  [[nodiscard]] int restarts() const { return restarts_; }

  bool operator==(const RestartPolicy&) const = default;

 private:
  void count_quick(const FailureFacts& first);

  RestartLimits limits_;
  int restarts_ = 0;
  int quick_ = 0;  // quick failures in a row, all with quick_end_
  std::string quick_end_;
  bool past_start_ = false;  // an attempt ran longer, so the program can get past its start
};

}  // namespace muster
