// SPDX-License-Identifier: Apache-2.0
// Scrapes: GETs that are sent when they are due, whether or not those before have been answered, so
// that a server that stops for a moment is seen in every answer that came too late. Called by the
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
  std::size_t connections = 8;  // kept open; they take turns
  std::size_t requests = 10'000;
  double rate = 1000;  // a second
};

struct Scrapes {
  std::size_t answered = 0;  // with 200
  double seconds = 0;        // from the first request's due time to the last answer
  // From when a request was due until its answer was whole.
  Duration median{};
  Duration most_of_all{};  // 99 %
  Duration longest{};
};

[[nodiscard]] Result<Scrapes> scrape(const ScrapePlan& plan);

}  // namespace muster::bench
