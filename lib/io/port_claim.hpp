// SPDX-License-Identifier: Apache-2.0
// PortClaim: one port number that is this process's among all launchers of the network namespace,
// while it looks at the port or holds it. bind() cannot say that of a port that is taken with
// SO_REUSEADDR. The kernel takes the claim back when the process ends. Resource.
#pragma once

#include "base/fd.hpp"

#include <cstdint>
#include <expected>
#include <utility>

namespace muster {

class PortClaim {
 public:
  // Error: the errno; EADDRINUSE where another launcher has it.
  [[nodiscard]] static std::expected<PortClaim, int> take(std::uint16_t port);

 private:
  explicit PortClaim(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;  // bound to a name that only one socket can have
};

}  // namespace muster
