// SPDX-License-Identifier: Apache-2.0
// StagingCopy: copies into memory that another CPU reads next. Plain stores are best while both
// CPUs share a nearby cache. If every line must first be fetched from a distant cache, streaming
// stores take a tenth of the time. Which case applies depends on where the ranks run. StagingCopy
// detects it from the time that plain stores take. One thread.
#pragma once

#include "base/time.hpp"

#include <cstddef>

namespace muster::collective {

inline constexpr std::size_t kLeastJudged = 8UL * 1024;  // bytes; shorter copies are too noisy
inline constexpr int kStreamedCopies = 64;

// Decides whether to use streaming stores. Pure. After an expensive plain copy, the next
// kStreamedCopies copies are streamed; then one plain copy measures the cost again.
class StoreChoice {
 public:
  [[nodiscard]] bool streams() const { return left_ > 0; }

  // Records how long a copy of `bytes` took. The copy must have used the stores that streams()
  // selected.
  void copied(std::size_t bytes, Duration took);

 private:
  int left_ = 0;
};

class StagingCopy {
 public:
  // `to` must be line-aligned. The copied data become visible to others before any later store.
  void operator()(void* to, const void* from, std::size_t bytes);

 private:
  StoreChoice choice_;
};

// Uses non-temporal stores if the CPU has them. `to` must be line-aligned.
void stream_copy(void* to, const void* from, std::size_t bytes);

}  // namespace muster::collective
