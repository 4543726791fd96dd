// SPDX-License-Identifier: Apache-2.0
// Disturbances: times at which parts of a simulated world were cut, frozen or hurt. A node that
// dies at another time dies in sight of its peers. Value of one world.
#pragma once

#include "sim/nodes/event_queue.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::sim {

class Disturbances {
 public:
  void note(VirtualTime from, Duration length) { times_.emplace_back(from, from + length); }

  // True if nothing was disturbed between the two times.
  [[nodiscard]] bool none(VirtualTime from, VirtualTime to) const {
    return std::ranges::none_of(
        times_, [&](const auto& time) { return time.first <= to && from <= time.second; });
  }

 private:
  std::vector<std::pair<VirtualTime, VirtualTime>> times_;
};

}  // namespace muster::sim
