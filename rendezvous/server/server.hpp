// SPDX-License-Identifier: Apache-2.0
// StoreServer: the sockets around ServerCore. Lives on its owner's loop; single-threaded resource.
// Wire format: rendezvous/PROTOCOL.md.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/admission.hpp"
#include "rendezvous/server/admission_limits.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace asio {
class io_context;
}

namespace muster {

class StoreServer {
 public:
  // Binds and listens before it returns, so the port is taken from then on. `address` is numeric
  // (IPv4 or IPv6; "::" means both). Port 0 takes any free one. Errors: system, with the address,
  // the reason and advice.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> open(asio::io_context& loop,
                                                                 const std::string& address,
                                                                 std::uint16_t port);
  // The same, on a socket that already listens.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> open(asio::io_context& loop,
                                                                 UniqueFd listener);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  // Closes the listening socket and all sessions at once.
  ~StoreServer();

  [[nodiscard]] std::uint16_t port() const;

  // Called on the loop with a log line for each client that is closed because of a protocol error,
  // a limit or a refused admission, and once when descriptors run out. Peers that never sent a
  // valid request (port scanners) are closed silently.
  void set_notice(std::function<void(const std::string&)> notice);

  // Queried for each client before a reply is sent. Must outlive the server. Without it, every
  // client is admitted.
  void set_admission(Admission* admission, const AdmissionLimits& limits = {});

  // Called on the loop with each connection whose first byte is a node's (kRoundDialect), and all
  // bytes read so far. Without it, such a connection is closed like other invalid ones.
  void set_adopter(std::function<void(UniqueFd, std::string)> adopter);

 private:
  struct Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
