// SPDX-License-Identifier: Apache-2.0
// Finds the owner of a connected TCP socket on this host with a NETLINK_SOCK_DIAG query that
// contains both addresses. Any user may send such a query. Used to determine which user owns the
// other end of a connection, and to answer such queries from other nodes about sockets on this
// host.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/socket_address.hpp"

#include <cstdint>
#include <optional>

#include <sys/types.h>

namespace muster {

struct SocketOwner {
  // The user who created the socket. None if the user has no mapping in our user namespace.
  std::optional<uid_t> uid;
  // The N of "socket:[N]" in /proc/PID/fd. 0 if no process has the socket open any more.
  std::uint64_t inode = 0;
  bool operator==(const SocketOwner&) const = default;
};

// True if this user can be distinguished from other users in our user namespace.
[[nodiscard]] bool has_number(uid_t user);

// Sends all queries through one socket. The first query opens the socket, which then stays open, so
// later queries work even when descriptors are exhausted. Resource; one thread.
class SocketDiag {
 public:
  // The owner of the socket that is bound to `own` and connected to `other`. None if our network
  // namespace has no such socket: it is on another host or in a container with its own network, it
  // is not connected yet, or it was closed and the kernel no longer records its owner. Another
  // socket may later reuse the pair of addresses, so callers that act on the answer must check
  // afterwards that their own end is still connected. Errors: not_possible if this kernel does not
  // support the query; any other code if the query failed this time.
  [[nodiscard]] Result<std::optional<SocketOwner>> owner_of(const SocketAddress& own,
                                                            const SocketAddress& other);

 private:
  UniqueFd netlink_;
};

}  // namespace muster
