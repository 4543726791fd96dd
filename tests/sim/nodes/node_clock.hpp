// SPDX-License-Identifier: Apache-2.0
// NodeClock: one machine's steady clock, with an offset and a rate error. The world converts in
// both directions; a core sees only local time. Value type.
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

  // The first time at which local() is at or after `when`.
  [[nodiscard]] VirtualTime reach(TimePoint when) const {
    const std::int64_t wanted = (when.time_since_epoch() - offset).count();
    std::int64_t ns = wanted - drift(wanted);
    while (ns + drift(ns) < wanted) {  // each iteration leaves 200 ppm of the remaining difference
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
