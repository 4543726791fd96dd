// SPDX-License-Identifier: Apache-2.0
// HeldPort: reserves a TCP port on this host for a program that will listen on it. Our socket is
// bound to the port but never listens. The kernel then chooses the port neither for bind() to port
// 0 nor for connect(), and bind() to it without SO_REUSEADDR fails. A server that sets SO_REUSEADDR
// can bind and listen on the port, on every IPv4 and IPv6 address. The agent reserves ports for its
// workers this way. A UDP port cannot be held with a socket, because most UDP servers do not set
// SO_REUSEADDR. take_with_udp() therefore prefers numbers that the kernel never chooses. Resource;
// the descriptors are close-on-exec.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/port_claim.hpp"
#include "io/port_range.hpp"

#include <cstdint>
#include <expected>
#include <utility>

namespace muster {

class HeldPort {
 public:
  // Takes an unused port in the range. Two launchers on a host never hold the same port. Error:
  // system, if no port in the range is free or descriptors are exhausted.
  [[nodiscard]] static Result<HeldPort> take(PortRange range);

  // Takes a port that is unused for UDP, too. Outside of the kernel's range for automatic ports, no
  // program gets the UDP port unless it asks for this number.
  [[nodiscard]] static Result<HeldPort> take_with_udp(PortRange range);

  [[nodiscard]] std::uint16_t number() const { return number_; }

  // How the implementation binds a port.
  enum class Sharing {
    none,    // fails if any other socket is bound to the port
    others,  // fails only if another socket listens on it
  };

  // A claimed and bound port.
  struct Held {
    PortClaim claim;
    UniqueFd socket;
  };

 private:
  using Hold = std::expected<Held, int> (*)(std::uint16_t port, Sharing sharing);  // error: errno

  HeldPort(PortClaim claim, UniqueFd socket, std::uint16_t number)
      : claim_(std::move(claim)), socket_(std::move(socket)), number_(number) {}

  [[nodiscard]] static Result<HeldPort> take_any();
  [[nodiscard]] static Result<HeldPort> take_in(PortRange range, std::uint16_t start, Hold hold);

  PortClaim claim_;
  UniqueFd socket_;
  std::uint16_t number_;
};

}  // namespace muster
