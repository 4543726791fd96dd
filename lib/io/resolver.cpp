// SPDX-License-Identifier: Apache-2.0
#include "io/resolver.hpp"

#include "base/clock.hpp"
#include "io/dns_query.hpp"

#include <algorithm>

#include <poll.h>

namespace muster {

Result<std::vector<std::string>> resolve_blocking(const std::string& name, Duration patience) {
  TimePoint now = steady_now();
  DnsQuery query(name, now, patience);
  while (!query.result()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(query.next_deadline(now) - now);
    pollfd wait{query.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000)));
    now = steady_now();
    query.step(now);
  }
  return *query.result();
}

}  // namespace muster
