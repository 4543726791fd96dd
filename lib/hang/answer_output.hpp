// SPDX-License-Identifier: Apache-2.0
// AnswerOutput: how many bytes each rank has printed, excluding output that our own query caused.
// PyTorch's NCCL logs lines when asked for a dump of its flight recorder, so a hanging rank would
// seem to make progress at every inspection. Time is an argument; pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <map>

namespace muster::hang {

// After a query output does not count until the answer arrives, but at most this long; then it does
// not count for the tail either, because lines are also logged after the answer.
inline constexpr Duration kAnswerOutput = std::chrono::seconds(12);
inline constexpr Duration kAnswerTail = std::chrono::seconds(1);

class AnswerOutput {
 public:
  // A rank was queried; `bytes` is its total output so far.
  void asked(int rank, std::uint64_t bytes, TimePoint now);

  // The inspection is over: its answers have arrived or are too late.
  void answered(TimePoint now);

  // It is working on an answer, so its activity is no sign of life either.
  [[nodiscard]] bool is_answering(int rank, TimePoint now) const;

  // The part of its total output `bytes` that counts.
  [[nodiscard]] std::uint64_t count(int rank, std::uint64_t bytes, TimePoint now);

  // New workers.
  void clear() { ranks_.clear(); }

 private:
  struct Rank {
    std::uint64_t last = 0;
    std::uint64_t answers = 0;  // bytes that do not count
    TimePoint until{};
  };

  std::map<int, Rank> ranks_;  // that were queried
};

}  // namespace muster::hang
