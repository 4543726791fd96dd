// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/backoff.hpp"

#include <algorithm>
#include <utility>

namespace muster {

Duration Backoff::next() {
  // One step of splitmix64. Any seed works, including 0.
  state_ += 0x9E3779B97F4A7C15ULL;
  std::uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBULL;
  mixed ^= mixed >> 31U;
  const auto per_mille = static_cast<std::int64_t>(500 + mixed % 1001);
  const Duration mean = std::exchange(mean_, std::min(mean_ + mean_ / 2, kMost));
  return mean * per_mille / 1000;
}

}  // namespace muster
