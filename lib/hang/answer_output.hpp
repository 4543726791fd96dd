// SPDX-License-Identifier: Apache-2.0
// AnswerOutput: how many bytes each rank has printed, without what it printed because we asked it:
// PyTorch's NCCL logs lines when it is asked for a dump of its flight recorder, and a rank that
// hangs would seem to go on each time it is looked at. Time is an argument; pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <map>

namespace muster::hang {

// After a question output does not count for so long: the time for the answer, and what is logged
// after it.
inline constexpr Duration kAnswerOutput = std::chrono::seconds(12);

class AnswerOutput {
 public:
  // A rank was asked; `bytes` are all that it has printed until now.
  void asked(int rank, std::uint64_t bytes, TimePoint now);

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
