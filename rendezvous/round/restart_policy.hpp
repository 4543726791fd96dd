// SPDX-License-Identifier: Apache-2.0
// RestartPolicy: decides after a failed attempt whether to restart all workers of the job or to
// give up, and why. Called once per failed attempt, by the coordinator of a multi-node job or by
// LocalRounds in a single-node job. It is a separate module because neither of them may include the
// other. Pure; value-like.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/node_messages.hpp"

#include <string>
#include <string_view>

namespace muster {

// A failure is quick if it happens within this time after the last worker was started. A failing
// import or a missing file shows up within the seconds that Python needs to import its modules.
inline constexpr Duration kQuickFailureTime = std::chrono::seconds(5);

// The default of --quick-failures: the job ends after this number of quick failures in a row.
inline constexpr int kQuickFailures = 3;

// Why a job does not restart after a notice of preemption.
inline constexpr std::string_view kPreemptedVerdict =
    "not restarted: the scheduler is stopping the job";

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

  // `first` is the first failure of the attempt.
  [[nodiscard]] RestartDecision decide(const Failed& first);

  [[nodiscard]] int restarts() const { return restarts_; }

  bool operator==(const RestartPolicy&) const = default;

 private:
  void count_quick(const Failed& first);

  RestartLimits limits_;
  int restarts_ = 0;
  int quick_ = 0;  // quick failures in a row, all with quick_code_
  int quick_code_ = 0;
  bool past_start_ = false;  // an attempt ran longer, so the program can get past its startup
};

}  // namespace muster
