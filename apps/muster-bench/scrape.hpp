// SPDX-License-Identifier: Apache-2.0
// Scrapes: GETs sent at fixed times, whether or not earlier ones have been answered. So a pause of
// the server delays every response that was due during the pause (no coordinated omission). Called
// by the `scrape` command. Stateless functions.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster::bench {

struct ScrapePlan {
  std::uint16_t port = 0;
  std::string path = "/metrics";
  std::size_t connections = 8;  // kept open, used in turn
  std::size_t requests = 10'000;
  double rate = 1000;  // per second
};

struct Scrapes {
  std::size_t answered = 0;  // responses with status 200
  double seconds = 0;        // from the first request's due time to the last response
  // Latency, from the time when a request is due to the end of its response.
  Duration median{};
  Duration most_of_all{};  // 99th percentile
  Duration longest{};
};

[[nodiscard]] Result<Scrapes> scrape(const ScrapePlan& plan);

}  // namespace muster::bench
