// SPDX-License-Identifier: Apache-2.0
// RestartPolicy: after a failed attempt, start all workers of the job again or give up, and why.
// Asked once for each failed attempt: by the coordinator of a job of many nodes, by the supervisor
// core of a job of one. Pure; value-like.
#pragma once

#include "base/time.hpp"

#include <string>

namespace muster {

// An attempt that fails sooner than this after its last worker was started failed at start-up: a
// wrong import or a missing file shows within the seconds that Python needs to import its modules.
inline constexpr Duration kStartupTime = std::chrono::seconds(5);

// So many start-up failures in a row, all with the same end, are not bad luck: no restart helps.
inline constexpr int kStartupFailuresMax = 3;

// The first failure of an attempt.
struct FailureFacts {
  std::string end;         // "exited with code 7": the same words are the same end
  bool permanent = false;  // no restart can help: the program cannot be executed
  Duration run_time{};     // from the start of the last worker to the failure
};

struct RestartDecision {
  bool restart = false;
  std::string reason;  // for people; empty for a plain end without any restart asked for
  bool operator==(const RestartDecision&) const = default;
};

class RestartPolicy {
 public:
  explicit RestartPolicy(int max_restarts, int used = 0)
      : max_restarts_(max_restarts), restarts_(used) {}

  [[nodiscard]] RestartDecision decide(const FailureFacts& first);

  [[nodiscard]] int restarts() const { return restarts_; }

  bool operator==(const RestartPolicy&) const = default;

 private:
  int max_restarts_ = 0;
  int restarts_ = 0;
  int startup_failures_ = 0;  // in a row, with startup_end_
  std::string startup_end_;
};

}  // namespace muster
