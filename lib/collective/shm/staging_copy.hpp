// SPDX-License-Identifier: Apache-2.0
// StagingCopy: copies into memory that another processor reads next. Plain stores are the best as
// long as the two share a cache that is near; where every line has to be fetched from afar first,
// stores that go past the caches cost a tenth. Which of the two it is depends on where the ranks
// happen to run, and shows in what plain stores cost. One thread.
#pragma once

#include "base/time.hpp"

#include <cstddef>

namespace muster::collective {

inline constexpr std::size_t kLeastJudged = 8UL * 1024;  // bytes: shorter copies tell too little
inline constexpr int kStreamedCopies = 64;

// Whether to stream. Pure: a plain copy that was dear has the next kStreamedCopies streamed, then
// one plain copy shows again what it costs.
class StoreChoice {
 public:
  [[nodiscard]] bool streams() const { return left_ > 0; }

  // A copy of so many bytes, made as streams() said.
  void copied(std::size_t bytes, Duration took);

 private:
  int left_ = 0;
};

class StagingCopy {
 public:
  // `to` begins at a line. What is stored is visible to others before what is stored after.
  void operator()(void* to, const void* from, std::size_t bytes);

 private:
  StoreChoice choice_;
};

// By stores that go past the caches, where the processor has such; `to` begins at a line.
void stream_copy(void* to, const void* from, std::size_t bytes);

}  // namespace muster::collective
