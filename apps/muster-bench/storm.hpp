// SPDX-License-Identifier: Apache-2.0
// Thousands of concurrent connections. All of them connect, set and get, and stay open, to measure
// the server's memory per connection. Also holds idle connections during a load. Called by the
// `storm` and `hold` commands.
#pragma once

#include "apps/muster-bench/dialect.hpp"
#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster::bench {

struct StormPlan {
  std::uint16_t port = 0;
  Protocol protocol = Protocol::tcpstore;
  std::size_t clients = 10'000;
};

// The open connections, and the time until the last one has received its answers.
struct Storm {
  std::vector<UniqueFd> connections;
  Duration connected{};  // until the greeting of every client is answered
  Duration whole{};      // until each client has also set its key and read it back
};

// Maximum number of connects in progress. If clients overflow the accept queue
// (net.core.somaxconn), the kernel drops their SYNs, and the clients wait a second before they
// retry, regardless of the server.
inline constexpr std::size_t kStormPace = 512;

[[nodiscard]] Result<Storm> raise_storm(const StormPlan& plan);

// Opens connections that have completed the greeting and stay idle.
[[nodiscard]] Result<std::vector<UniqueFd>> open_idle(const StormPlan& plan);

}  // namespace muster::bench
