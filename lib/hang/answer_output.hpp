// SPDX-License-Identifier: Apache-2.0
// AnswerOutput: how many bytes each rank has printed, without what it printed because we asked it:
// PyTorch's NCCL logs lines when it is asked for a dump of its flight recorder, and a rank that
// hangs would seem to go on each time it is looked at. Time is an argument; pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <map>

namespace muster::hang {

// After a question output does not count until the answer is there, but no longer than this; and
// then for what is logged after the answer.
inline constexpr Duration kAnswerOutput = std::chrono::seconds(12);
inline constexpr Duration kAnswerTail = std::chrono::seconds(1);

class AnswerOutput {
 public:
  // A rank was asked; `bytes` are all that it has printed until now.
  void asked(int rank, std::uint64_t bytes, TimePoint now);

  // The inspection is over: its answers have arrived, or are too late.
  void answered(TimePoint now);

  // It works on an answer: what it does is no sign of life either.
  [[nodiscard]] bool is_answering(int rank, TimePoint now) const;

  // Those of `bytes`, all that it has printed, which count.
  [[nodiscard]] std::uint64_t count(int rank, std::uint64_t bytes, TimePoint now);

  // Other workers.
  void clear() { ranks_.clear(); }

 private:
  struct Rank {
    std::uint64_t last = 0;
    std::uint64_t answers = 0;  // bytes that do not count
    TimePoint until{};
  };

  std::map<int, Rank> ranks_;  // that were asked
};

}  // namespace muster::hang
