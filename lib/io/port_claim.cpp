// SPDX-License-Identifier: Apache-2.0
#include "io/port_claim.hpp"

#include "base/unix_socket.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include <sys/socket.h>

namespace muster {

std::expected<PortClaim, int> PortClaim::take(std::uint16_t port) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UnixAddress name = abstract_address("muster-port-" + std::to_string(port));
  if (!socket || ::bind(socket.get(), name.raw(), name.size) != 0) {
    return std::unexpected(errno);
  }
  return PortClaim(std::move(socket));
}

}  // namespace muster
