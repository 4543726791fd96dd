// SPDX-License-Identifier: Apache-2.0
// NodeClock: one machine's own steady clock, with its offset and its error in rate. The world asks
// it in both directions; a core sees only what it says. Value type.
#pragma once

#include "sim/nodes/event_queue.hpp"

namespace muster::sim {

struct NodeClock {
  Duration offset{};
  std::int64_t ppm = 0;

  [[nodiscard]] TimePoint local(VirtualTime when) const {
    const std::int64_t ns = when.time_since_epoch().count();
    return TimePoint{} + offset + Duration(ns + drift(ns));
  }

  // The first moment at which local() is not before `when`.
  [[nodiscard]] VirtualTime reach(TimePoint when) const {
    const std::int64_t wanted = (when.time_since_epoch() - offset).count();
    std::int64_t ns = wanted - drift(wanted);
    while (ns + drift(ns) < wanted) {  // each turn leaves 200 millionths of what was missing
      ns += wanted - ns - drift(ns);
    }
    return VirtualTime{} + Duration(ns);
  }

 private:
  [[nodiscard]] std::int64_t drift(std::int64_t ns) const {
    return ns / 1'000'000 * ppm + ns % 1'000'000 * ppm / 1'000'000;
  }
};

}  // namespace muster::sim
