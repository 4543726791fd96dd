// SPDX-License-Identifier: Apache-2.0
// RestartPolicy: decides after a failed attempt whether to restart all workers of the job or to
// give up, and why. Called once per failed attempt, by the coordinator of a multi-node job or by
// LocalRounds in a single-node job. It is a separate module because neither of them may include the
// other. Pure; value-like.
#pragma once

#include "base/time.hpp"

#include <string>

namespace muster {

// A failure is quick if it happens within this time after the last worker was started. A failing
// import or a missing file shows up within the seconds that Python needs to import its modules.
inline constexpr Duration kQuickFailureTime = std::chrono::seconds(5);

// The default of --quick-failures: the job ends after this number of quick failures in a row.
inline constexpr int kQuickFailures = 3;

// Facts about the first failure of an attempt.
struct FailureFacts {
  std::string end;         // "exited with code 7"; equal texts mean equal failures
  bool permanent = false;  // a restart cannot help: the program is not executable
  Duration run_time{};     // time from the last worker's start to the failure
  bool exited = false;     // exited on its own with a non-zero code: see is_own_exit
};

// True if the worker exited on its own with a non-zero code. Shells exit with 128 + n to report
// that their child was killed by signal n, so these codes count as signals.
[[nodiscard]] bool is_own_exit(bool signaled, int code);

struct RestartLimits {
  int max_restarts = 0;
  int quick_failures = kQuickFailures;  // 0 means off
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
  bool past_start_ = false;  // an attempt ran longer, so the program can get past its startup
};

}  // namespace muster
