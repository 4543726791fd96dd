// SPDX-License-Identifier: Apache-2.0
// PortClaim: claims one port number while this process probes or holds the port, so that no other
// launcher in the network namespace uses it. bind() alone cannot ensure this for a port that is
// bound with SO_REUSEADDR. The kernel releases the claim when the process exits. Resource.
#pragma once

#include "base/fd.hpp"

#include <cstdint>
#include <expected>
#include <utility>

namespace muster {

class PortClaim {
 public:
  // Error: the errno; EADDRINUSE if another launcher has claimed the port.
  [[nodiscard]] static std::expected<PortClaim, int> take(std::uint16_t port);

 private:
  explicit PortClaim(UniqueFd socket) : socket_(std::move(socket)) {}

  UniqueFd socket_;  // bound to an abstract name, which is exclusive
};

}  // namespace muster
