// SPDX-License-Identifier: Apache-2.0
// StoreProxy: listens on 127.0.0.1 for a node's workers when their store is on another node
// (--store-via=proxy). Forwards the connections of permitted clients. Exists for one round;
// resource of SharedRounds, on its loop.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/admission.hpp"
#include "rendezvous/server/listener.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace asio {
class io_context;
}

namespace muster {

// The address that workers connect to with --store-via=proxy, on all nodes.
inline constexpr const char* kProxyAddress = "127.0.0.1";

class StoreProxy {
 public:
  using Carry = std::function<void(UniqueFd)>;

  // Uses `port`, the store's own port, if it is free on this node, or else a port in the range.
  [[nodiscard]] static Result<std::unique_ptr<StoreProxy>> open(asio::io_context& loop,
                                                                std::uint16_t port,
                                                                PortRange range,
                                                                Admission& admission,
                                                                Carry carry);
  StoreProxy(const StoreProxy&) = delete;
  StoreProxy& operator=(const StoreProxy&) = delete;
  ~StoreProxy();

  [[nodiscard]] std::uint16_t port() const;

  // Called with a one-line message when a client is refused, at most once a minute.

  void set_notice(std::function<void(const std::string&)> notice);

 private:
  struct Impl;
  explicit StoreProxy(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
