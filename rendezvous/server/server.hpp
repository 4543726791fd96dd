// SPDX-License-Identifier: Apache-2.0
// StoreServer: the sockets around ServerCore. Lives on the loop of its owner, single-threaded;
// resource type. Wire format: rendezvous/PROTOCOL.md.
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
  // Binds and listens before it returns, so that the port is taken from then on. `address` is
  // numeric (IPv4 or IPv6; "::" means both); port 0 takes any free one. Errors: system, with the
  // address, the reason and what to try.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> open(asio::io_context& loop,
                                                                 const std::string& address,
                                                                 std::uint16_t port);
  // The same on a socket that listens already.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> open(asio::io_context& loop,
                                                                 UniqueFd listener);
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;
  // Closes the listening socket and every session at once.
  ~StoreServer();

  [[nodiscard]] std::uint16_t port() const;

  // Called on the loop with one sentence for each client that is closed because it broke the
  // format or a limit, or was not admitted, and once when no descriptor is left for another one.
  // Connections that never were clients (port scanners) are closed in silence.
  void set_notice(std::function<void(const std::string&)> notice);

  // Asked about each client before its first byte is answered; must outlive the server. Without it
  // everybody is admitted.
  void set_admission(Admission* admission, const AdmissionLimits& limits = {});

  // Called on the loop with each connection whose first byte is that of a node (kRoundDialect),
  // with all bytes read so far. Without it such a connection is closed like any other stranger.
  void set_adopter(std::function<void(UniqueFd, std::string)> adopter);

 private:
  struct Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster
