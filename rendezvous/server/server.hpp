// SPDX-License-Identifier: Apache-2.0
// StoreServer: connects ServerCore to sockets, on its owner's loop. rendezvous/PROTOCOL.md
// describes the wire format. Single-threaded resource.
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
  // Binds and listens before it returns. `address` is numeric (IPv4 or IPv6; "::" means both). If
  // the port is 0, any free port is used. Errors: system, with the address, the reason and advice.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> open(asio::io_context& loop,
                                                                 const std::string& address,
                                                                 std::uint16_t port);
  // Like the function above, but uses a socket that is already listening.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> open(asio::io_context& loop,
                                                                 UniqueFd listener);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  // Closes the listening socket and all sessions immediately.
  ~StoreServer();

  [[nodiscard]] std::uint16_t port() const;

  // Called on the loop with a log line for each client that is closed because of a protocol error,
  // a limit or a refused admission, and once if descriptors are exhausted. Peers that never sent a
  // valid request (such as port scanners) are closed silently.
  void set_notice(std::function<void(const std::string&)> notice);

  // `admission` is queried for each client before a reply is sent. It must outlive the server. If
  // it is not set, every client is admitted.
  void set_admission(Admission* admission, const AdmissionLimits& limits = {});

  // Called on the loop with each connection whose first byte shows that it is from a node
  // (kRoundDialect), and all bytes read so far. If not set, such a connection is closed as invalid.
  void set_adopter(std::function<void(UniqueFd, std::string)> adopter);

 private:
  struct Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
