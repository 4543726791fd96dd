// SPDX-License-Identifier: Apache-2.0
// TurnBudget: how much more work may be done in this turn, that is, before the server serves other
// sessions. Used by StoreCore and WaitBook. Value.
#pragma once

#include <algorithm>
#include <cstdint>

namespace muster {

class TurnBudget {
 public:
  // One unit is the work for one key or one wait, which takes less than a microsecond.
  explicit TurnBudget(std::uint64_t units) : left_(units) {}

  [[nodiscard]] bool used_up() const { return left_ == 0; }

  [[nodiscard]] std::uint64_t left() const { return left_; }

  void spend(std::uint64_t units) { left_ -= std::min(left_, units); }

  // Copying a kilobyte takes no longer than one unit.
  void spend_key(std::uint64_t bytes_copied) {
    constexpr std::uint64_t kBytesForUnit = 1024;
    spend(1 + bytes_copied / kBytesForUnit);
  }

 private:
  std::uint64_t left_;
};

}  // namespace muster
