// SPDX-License-Identifier: Apache-2.0
// FailureHistory: the failures of the last rounds on this node, and the judgement whether another
// restart can help. It uses facts only and is conservative: it advises to stop only if the facts
// show that the same failure would follow. Used by the supervisor. Pure; value.
#pragma once

#include "agent/failures/failure.hpp"
#include "agent/failures/finding.hpp"
#include "agent/failures/judgement.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <vector>

namespace muster {

// Older rounds are forgotten.
inline constexpr std::size_t kRoundsRemembered = 8;

// Later failures of a round are ignored: the first ones contain the cause.
inline constexpr std::size_t kFindingsPerRoundMax = 64;

// Without steps, two failures happened at the same point of the program if the run times differ by
// at most this time, or by a fifth of the longer one.
inline constexpr Duration kSamePointTime = std::chrono::seconds(2);

class FailureHistory {
 public:
  FailureHistory() = default;

  // `no_restart_on`: exit codes with which the job does not restart.
  explicit FailureHistory(std::set<int> no_restart_on) : no_restart_on_(std::move(no_restart_on)) {}

  // `workers`: the number of ranks whose failures this history receives.
  void begin_round(int workers);

  // In order of detection. Only the first failure of a rank in a round counts.
  void note(const WorkerFailure& failure);

  // A line that the kernel logged during the round.
  void note_kernel_log(const std::string& line);

  // The judgement of the current round.
  [[nodiscard]] Judgement judge() const;

  bool operator==(const FailureHistory&) const = default;

 private:
  struct Round {
    int workers = 1;
    std::vector<Finding> findings;
    std::string hardware;      // the first hardware error in the kernel log
    bool memory_kill = false;  // the kernel log reports a process that was killed to free memory
    bool operator==(const Round&) const = default;
  };

  [[nodiscard]] const Finding* root() const;
  [[nodiscard]] Cause cause_of(const Finding& finding, const Round& round) const;
  [[nodiscard]] std::optional<Judgement> judge_code(const Finding& root) const;
  [[nodiscard]] std::optional<Judgement> judge_startup(const Finding& root) const;
  [[nodiscard]] std::optional<Judgement> judge_repeat(const Finding& root) const;
  [[nodiscard]] const Finding* repeated(const Finding& now) const;

  std::set<int> no_restart_on_;
  std::deque<Round> rounds_;
};

}  // namespace muster
