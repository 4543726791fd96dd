// SPDX-License-Identifier: Apache-2.0
// The status in Prometheus text format, as served by /metrics. README.md lists the names. Pure.
#pragma once

#include "status/job_status.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace muster {

// Values that are not in any event.
struct MetricsExtra {
  double now = 0;  // Unix time
  std::optional<std::uint64_t> output_bytes;
  std::uint64_t http_requests = 0;
  std::uint64_t http_refused = 0;  // rejected connections and requests
};

[[nodiscard]] std::string metrics_text(const JobStatus& status, const MetricsExtra& extra);

}  // namespace muster
