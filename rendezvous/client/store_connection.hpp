// SPDX-License-Identifier: Apache-2.0
// StoreConnection: one TCP connection to a store server, with deadlines. Blocking; a signal in
// between changes nothing. Used by BlockingStore. Resource type.
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
  // Tries each address of `host` (numeric or a name) and starts again, with a growing and jittered
  // pause, until somebody answers as a store or `timeout` is over. Errors: unreachable, usage.
  [[nodiscard]] static Result<StoreConnection> open(const std::string& host,
                                                    std::uint16_t port,
                                                    Duration timeout);

  [[nodiscard]] Result<void> send(std::string_view bytes, TimePoint deadline);

  // Exactly `size` bytes. Errors: timed_out (what came stays for the next call), closed.
  [[nodiscard]] Result<std::string> receive(std::size_t size, TimePoint deadline);

  // Whether `size` bytes come before the deadline; they stay for receive. Error: closed.
  [[nodiscard]] Result<bool> await(std::size_t size, TimePoint deadline);

  // Every later call fails with closed.
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
  std::string input_;  // received and not yet asked for
};

}  // namespace muster
