// SPDX-License-Identifier: Apache-2.0
// A port that nobody else gets until the rendezvous listens there: a socket that is bound, does not
// listen, and lets one that sets SO_REUSEADDR do so. Resource.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"

#include <cstdint>
#include <string_view>

namespace muster {

struct HeldPort {
  UniqueFd socket;
  std::uint16_t port = 0;
};

// `range` is "A-B"; empty: any free port. Errors: usage for a range that is none, else system.
[[nodiscard]] Result<HeldPort> hold_port(std::string_view range);

}  // namespace muster
