// SPDX-License-Identifier: Apache-2.0
// DnsQuery: one name on its way to addresses, as a machine that its owner drives: wait until the
// descriptor is readable or next_deadline() has come, then step(). It never blocks and knows no
// loop, so that the blocking and the asynchronous resolver share it. Resource type, one thread.
// Why c-ares and not getaddrinfo: see README.md.
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
  // Answers at once what needs no server (numeric addresses, localhost, /etc/hosts), asks the
  // servers for the rest, and gives up after `timeout`.
  DnsQuery(std::string name, TimePoint now, Duration timeout);
  DnsQuery(const DnsQuery&) = delete;
  DnsQuery& operator=(const DnsQuery&) = delete;
  ~DnsQuery();

  // Set once the query is over.
  [[nodiscard]] const std::optional<Result<Addresses>>& result() const;

  // Readable when there is something to do; an epoll set that holds the servers' sockets.
  [[nodiscard]] int descriptor() const;

  // When to step at the latest, readable or not.
  [[nodiscard]] TimePoint next_deadline(TimePoint now) const;

  void step(TimePoint now);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
