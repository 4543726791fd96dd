// SPDX-License-Identifier: Apache-2.0
// How long a store client waits for a reply while the server processes another client's large
// request or many waits. Called by the tool `delays`.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster::bench {

// The longest PING of another client during one phase.
struct Delay {
  std::string phase;
  Duration longest{};
};

// `keys`: number of waits, and of keys in each large request. The server must be an empty muster
// store.
[[nodiscard]] Result<std::vector<Delay>> measure_delays(std::uint16_t port, std::size_t keys);

}  // namespace muster::bench
