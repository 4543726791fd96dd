// SPDX-License-Identifier: Apache-2.0
// DnsQuery: resolves one name as a state machine that its owner drives: wait until the descriptor
// is readable or next_deadline() has passed, then call step(). It never blocks and does not depend
// on the loop, so the blocking and the asynchronous resolver share it. README.md explains why it
// uses c-ares instead of getaddrinfo. Resource type, one thread.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster {

using Addresses = std::vector<std::string>;

class DnsQuery {
 public:
  // Completes immediately if no server is needed (numeric addresses, localhost, /etc/hosts);
  // otherwise queries the servers. Fails after `timeout`.
  DnsQuery(std::string name, TimePoint now, Duration timeout);
  DnsQuery(const DnsQuery&) = delete;
  DnsQuery& operator=(const DnsQuery&) = delete;
  ~DnsQuery();

  // Set once the query is complete.
  [[nodiscard]] const std::optional<Result<Addresses>>& result() const;

  // An epoll set with the sockets to the servers. Readable if step() has work to do.
  [[nodiscard]] int descriptor() const;

  // The time at which step() must be called even if the descriptor is not readable.
  [[nodiscard]] TimePoint next_deadline(TimePoint now) const;

  void step(TimePoint now);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
