// SPDX-License-Identifier: Apache-2.0
// PortRange: the ports on this host that may be used. Value type.
#pragma once

#include <cstdint>

namespace muster {

// Inclusive. 0 to 0 means any free port.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool operator==(const PortRange&) const = default;
};

}  // namespace muster
