// SPDX-License-Identifier: Apache-2.0
// RestartPolicy: after a failed attempt, start all workers of the job again or give up, and why.
// Asked once for each failed attempt: by the coordinator of a job of many nodes, by the supervisor
// core of a job of one. It is here because the rendezvous may not include the agent.
// Pure; value-like.
#pragma once

#include "base/time.hpp"

#include <string>

namespace muster {

// A failure sooner than this after the last worker was started is quick: a wrong import or a
// missing file shows within the seconds that Python needs to import its modules.
inline constexpr Duration kQuickFailureTime = std::chrono::seconds(5);

// The default of --quick-failures: so many quick failures in a row end the job.
inline constexpr int kQuickFailures = 3;

// The first failure of an attempt.
struct FailureFacts {
  std::string end;         // "exited with code 7": the same text is the same end
  bool permanent = false;  // no restart can help: the program cannot be executed
  Duration run_time{};     // from the start of the last worker to the failure
  bool exited = false;     // with a code of its own, not by a signal: see is_own_exit
};

// Whether this end was the worker's own: a code that is not 0. Shells say with 128 + n that the
// program below them was killed by signal n, so these codes are taken for signals.
[[nodiscard]] bool is_own_exit(bool signaled, int code);

struct RestartLimits {
  int max_restarts = 0;
  int quick_failures = kQuickFailures;  // 0: off
  bool operator==(const RestartLimits&) const = default;
};

struct RestartDecision {
  bool restart = false;
  std::string reason;  // for people; empty for a plain end without any restart asked for
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
  bool past_start_ = false;  // an attempt ran for longer: the program does get past its start
};

}  // namespace muster
