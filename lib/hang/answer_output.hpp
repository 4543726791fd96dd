// SPDX-License-Identifier: Apache-2.0
// AnswerOutput: counts the bytes that each rank has printed, without output caused by our own
// query. PyTorch's NCCL backend logs lines when a dump of its flight recorder is requested, so a
// hanging rank would seem to make progress at every inspection. Time is an argument; pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <map>

namespace muster::hang {

// After a query, output is ignored until the answer arrives, for at most kAnswerOutput. It is
// ignored for another kAnswerTail, because lines may be logged after the answer.
inline constexpr Duration kAnswerOutput = std::chrono::seconds(12);
inline constexpr Duration kAnswerTail = std::chrono::seconds(1);

class AnswerOutput {
 public:
  // A rank was queried; `bytes` is its total output so far.
  void asked(int rank, std::uint64_t bytes, TimePoint now);

  // The inspection has finished: all answers have arrived or have timed out.
  void answered(TimePoint now);

  // True while the rank is working on an answer. During this time, its activity is not a sign of
  // life either.
  [[nodiscard]] bool is_answering(int rank, TimePoint now) const;

  // Given the rank's total output `bytes`, returns the number of bytes that do not belong to
  // answers.
  [[nodiscard]] std::uint64_t count(int rank, std::uint64_t bytes, TimePoint now);

  // New workers have started.
  void clear() { ranks_.clear(); }

 private:
  struct Rank {
    std::uint64_t last = 0;
    std::uint64_t answers = 0;  // bytes printed while answering queries; they are no sign of life
    TimePoint until{};
  };

  std::map<int, Rank> ranks_;  // ranks that were queried
};

}  // namespace muster::hang
