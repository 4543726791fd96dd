// SPDX-License-Identifier: Apache-2.0
// DnsQuery: resolves one name as a state machine driven by its owner: wait until the descriptor is
// readable or next_deadline() has passed, then call step(). It never blocks and is independent of
// the loop, so the blocking and the asynchronous resolver share it. Resource type, one thread.
// README.md explains why it uses c-ares and not getaddrinfo.
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
  // Answers at once if no server is needed (numeric addresses, localhost, /etc/hosts), otherwise
  // queries the servers. Gives up after `timeout`.
  DnsQuery(std::string name, TimePoint now, Duration timeout);
  DnsQuery(const DnsQuery&) = delete;
  DnsQuery& operator=(const DnsQuery&) = delete;
  ~DnsQuery();

  // Set once the query is complete.
  [[nodiscard]] const std::optional<Result<Addresses>>& result() const;

  // An epoll set with the servers' sockets; readable if there is something to do.
  [[nodiscard]] int descriptor() const;

  // The latest time to call step(), readable or not.
  [[nodiscard]] TimePoint next_deadline(TimePoint now) const;

  void step(TimePoint now);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
