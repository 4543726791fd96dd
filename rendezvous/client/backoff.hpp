// SPDX-License-Identifier: Apache-2.0
// Backoff: the delays between connection attempts. The mean delay grows by 50% with each attempt,
// up to a limit. Jitter prevents a thousand workers from reconnecting at the same moment. Pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>

namespace muster {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(20);
  static constexpr Duration kMost = std::chrono::seconds(2);

  // The seed of the jitter. Each client needs a different seed.
  explicit Backoff(std::uint64_t seed) : state_(seed) {}

  // Returns a delay between 0.5 and 1.5 times the mean. Each call increases the mean.
  [[nodiscard]] Duration next();

 private:
  std::uint64_t state_;
  Duration mean_ = kFirst;
};

}  // namespace muster
