// SPDX-License-Identifier: Apache-2.0
// HeldPort: reserves a TCP port on this host for a program that will listen on it. Our socket is
// bound to the port but never listens. The kernel then chooses the port neither for bind() to port
// 0 nor for connect(), and bind() to it without SO_REUSEADDR fails. A server that sets SO_REUSEADDR
// can bind and listen on the port, on every IPv4 and IPv6 address. The agent reserves ports for its
// workers this way. Resource; the descriptors are close-on-exec.
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
  // Takes an unused port in the range. Two launchers on a host never hold the same port. Error:
  // system, if no port in the range is free or descriptors are exhausted.
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
