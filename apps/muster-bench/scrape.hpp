// SPDX-License-Identifier: Apache-2.0
// Scrapes: GETs sent on schedule, whether or not earlier ones have been answered, so that a pause
// of the server delays every response that was due in it (no coordinated omission). Called by the
// `scrape` command. Functions over values.
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
  std::size_t answered = 0;  // with status 200
  double seconds = 0;        // from the first request's due time to the last response
  // From the due time of a request to the end of its response.
  Duration median{};
  Duration most_of_all{};  // 99 %
  Duration longest{};
};

[[nodiscard]] Result<Scrapes> scrape(const ScrapePlan& plan);

}  // namespace muster::bench
