// SPDX-License-Identifier: Apache-2.0
// The owner of a connected TCP socket on this host: a NETLINK_SOCK_DIAG query with both addresses.
// Any user may query. Used to find out which user is at the other end of a connection, and to
// answer such a query about our own sockets.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/socket_address.hpp"

#include <cstdint>
#include <optional>

#include <sys/types.h>

namespace muster {

struct SocketOwner {
  // The user who created the socket. None if that user is not mapped in our user namespace.
  std::optional<uid_t> uid;
  // As in "socket:[N]" in /proc/PID/fd. 0 if no process has it open any more.
  std::uint64_t inode = 0;
  bool operator==(const SocketOwner&) const = default;
};

// True if this user can be distinguished from others in our user namespace.
[[nodiscard]] bool has_number(uid_t user);

// Queries through one socket, which is opened by the first query and stays open, so it also works
// when descriptors are exhausted. Resource; one thread.
class SocketDiag {
 public:
  // The owner of the socket that is bound to `own` and connected to `other`. None if our network
  // namespace has no such socket: it is on another host or in a container with its own network, it
  // is not connected yet, or it was closed and the kernel has forgotten its owner. Errors:
  // not_possible if this kernel does not support the query; any other code if the query failed this
  // time.
  //
  // The pair of addresses may belong to another socket later. Callers that act on the answer must
  // check afterwards that their own end is still connected.
  [[nodiscard]] Result<std::optional<SocketOwner>> owner_of(const SocketAddress& own,
                                                            const SocketAddress& other);

 private:
  UniqueFd netlink_;
};

}  // namespace muster
