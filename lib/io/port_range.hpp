// SPDX-License-Identifier: Apache-2.0
// PortRange: which ports of this machine may be taken. Value type.
#pragma once

#include <cstdint>

namespace muster {

// Both ends belong to it. From 0 to 0: any free port.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool operator==(const PortRange&) const = default;
};

}  // namespace muster
