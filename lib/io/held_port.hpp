// SPDX-License-Identifier: Apache-2.0
// HeldPort: a TCP port of this machine that is kept for a program which will listen on it. A socket
// of ours is bound to it and never listens. bind() to port 0 and connect() of other programs do not
// get the port, and a bind() without SO_REUSEADDR is refused; a server that sets SO_REUSEADDR binds
// and listens on it, on every address of IPv4 and IPv6. The agent holds ports for its workers.
// Resource; the descriptors are close-on-exec.
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
  // A port of the range that nobody else uses. No two launchers of a machine hold the same one.
  // Error: system; nothing of the range is free, or there are too few descriptors.
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
