// SPDX-License-Identifier: Apache-2.0
#include "io/resolver.hpp"

#include "base/clock.hpp"
#include "io/dns_query.hpp"
#include "io/wait_ready.hpp"

#include <poll.h>

namespace muster {

Result<std::vector<std::string>> resolve_blocking(const std::string& name, Duration timeout) {
  TimePoint now = steady_now();
  DnsQuery query(name, now, timeout);
  while (!query.result()) {
    static_cast<void>(wait_ready(query.descriptor(), POLLIN, query.next_deadline(now)));
    now = steady_now();
    query.step(now);
  }
  return *query.result();
}

}  // namespace muster
