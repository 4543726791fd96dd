// SPDX-License-Identifier: Apache-2.0
// Backoff: delays between connection attempts. Each is 50% longer than the one before, up to a
// limit, with jitter so that a thousand workers do not reconnect at the same moment. Pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>

namespace muster {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(20);
  static constexpr Duration kMost = std::chrono::seconds(2);

  // Different seeds produce different delays.
  explicit Backoff(std::uint64_t seed) : state_(seed) {}

  // A delay between 0.5 and 1.5 times the mean, which grows with each call.
  [[nodiscard]] Duration next();

 private:
  std::uint64_t state_;
  Duration mean_ = kFirst;
};

}  // namespace muster
