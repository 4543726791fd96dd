// SPDX-License-Identifier: Apache-2.0
// HeldPort: reserves a TCP port on this host for a program that will listen on it. Our socket is
// bound to it and never listens. Other programs do not get the port from bind() to port 0 or
// connect(), and bind() without SO_REUSEADDR fails; a server that sets SO_REUSEADDR can bind and
// listen on it, on every IPv4 and IPv6 address. The agent holds ports for its workers. Resource;
// the descriptors are close-on-exec.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/port_claim.hpp"
#include "io/port_range.hpp"

#include <cstdint>
#include <utility>

namespace muster {

class HeldPort {
 public:
  // Takes an unused port in the range. No two launchers on a host hold the same one. Error: system,
  // if no port in the range is free or descriptors are exhausted.
  [[nodiscard]] static Result<HeldPort> take(PortRange range);

  [[nodiscard]] std::uint16_t number() const { return number_; }

 private:
  HeldPort(PortClaim claim, UniqueFd socket, std::uint16_t number)
      : claim_(std::move(claim)), socket_(std::move(socket)), number_(number) {}

  [[nodiscard]] static Result<HeldPort> take_any();

  PortClaim claim_;
  UniqueFd socket_;
  std::uint16_t number_;
};

}  // namespace muster
