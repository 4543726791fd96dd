// SPDX-License-Identifier: Apache-2.0
// Thousands of connections at once: all connect, all set and get, and stay; with the server's
// memory for each of them. Also holds idle connections beside a load. Called by the store's rows.
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

// The open connections and how long it took until the last one had its answers.
struct Storm {
  std::vector<UniqueFd> connections;
  Duration connected{};  // every client has met the server (greeting answered)
  Duration whole{};      // … and has set its key and got it back
};

// At most kStormPace connects are under way at once: clients that come faster than the accept
// queue (net.core.somaxconn) allows lose their SYN and wait for a second, whatever the server.
inline constexpr std::size_t kStormPace = 512;

[[nodiscard]] Result<Storm> raise_storm(const StormPlan& plan);

// Connections that have been greeted and say nothing more.
[[nodiscard]] Result<std::vector<UniqueFd>> open_idle(const StormPlan& plan);

}  // namespace muster::bench
