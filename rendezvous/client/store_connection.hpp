// SPDX-License-Identifier: Apache-2.0
// StoreConnection: one TCP connection to a store server, with deadlines. Calls block and are
// restarted after signals. Used by BlockingStore. Resource type.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

class StoreConnection {
 public:
  // Tries each address of `host` (numeric or a name), with growing pauses and jitter between the
  // attempts, until a store answers or `timeout` expires. Errors: unreachable, usage.
  [[nodiscard]] static Result<StoreConnection> open(const std::string& host,
                                                    std::uint16_t port,
                                                    Duration timeout);

  [[nodiscard]] Result<void> send(std::string_view bytes, TimePoint deadline);

  // Returns exactly `size` bytes. Errors: timed_out (bytes received so far are kept), closed.
  [[nodiscard]] Result<std::string> receive(std::size_t size, TimePoint deadline);

  // Returns true if `size` bytes arrive before the deadline. The bytes are kept for receive().
  // Error: closed.
  [[nodiscard]] Result<bool> await(std::size_t size, TimePoint deadline);

  // After this, all calls fail with Errc::closed.
  void close() { fd_.reset(); }

 private:
  explicit StoreConnection(UniqueFd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] static Result<StoreConnection> try_once(const std::string& host,
                                                        std::uint16_t port,
                                                        bool with_ping,
                                                        TimePoint deadline);
  [[nodiscard]] static Result<UniqueFd> connect_to(const std::string& address,
                                                   std::uint16_t port,
                                                   TimePoint deadline);
  [[nodiscard]] Result<void> greet(bool with_ping, TimePoint deadline);

  UniqueFd fd_;
  std::string input_;  // received but not consumed
};

}  // namespace muster
