// SPDX-License-Identifier: Apache-2.0
// StoreProxy: the place on 127.0.0.1 where the workers of a node find their store when it is on
// another node (--store-via=proxy). Lets in who may, and hands each connection on. Of one round;
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

// Where workers find their store with --store-via=proxy, on all nodes.
inline constexpr const char* kProxyAddress = "127.0.0.1";

class StoreProxy {
 public:
  using Carry = std::function<void(UniqueFd)>;

  // On `port` if it is free, which is that of the store itself; else on one of the range.
  [[nodiscard]] static Result<std::unique_ptr<StoreProxy>> open(asio::io_context& loop,
                                                                std::uint16_t port,
                                                                PortRange range,
                                                                Admission& admission,
                                                                Carry carry);
  StoreProxy(const StoreProxy&) = delete;
  StoreProxy& operator=(const StoreProxy&) = delete;
  ~StoreProxy();

  [[nodiscard]] std::uint16_t port() const;

  // Given one sentence when somebody is refused, at most once a minute.
  void set_notice(std::function<void(const std::string&)> notice);

 private:
  struct Impl;
  explicit StoreProxy(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
