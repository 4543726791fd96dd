// SPDX-License-Identifier: Apache-2.0
// Backoff: how long to wait before the next attempt to connect. Grows by half each time, up to a
// bound, and is jittered so that a thousand workers do not come back at the same moment. Pure.
#pragma once

#include "base/time.hpp"

#include <cstdint>

namespace muster {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(20);
  static constexpr Duration kMost = std::chrono::seconds(2);

  // Different seeds give different delays.
  explicit Backoff(std::uint64_t seed) : state_(seed) {}

  // Between half and one and a half of the mean, which grows with each call.
  [[nodiscard]] Duration next();

 private:
  std::uint64_t state_;
  Duration mean_ = kFirst;
};

}  // namespace muster
