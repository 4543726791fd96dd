// SPDX-License-Identifier: Apache-2.0
// Whose a connected TCP socket of this machine is, as the kernel knows it: a question to
// NETLINK_SOCK_DIAG by both addresses. Any user may ask. For who has to know which user is at the
// other end of a connection, and for answering the same about our own sockets.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/socket_address.hpp"

#include <cstdint>
#include <optional>

#include <sys/types.h>

namespace muster {

struct SocketOwner {
  // Who made the socket. None: a user who has no number in our user namespace.
  std::optional<uid_t> uid;
  // As in "socket:[N]" of /proc/PID/fd. 0: no process has it open any more.
  std::uint64_t inode = 0;
  bool operator==(const SocketOwner&) const = default;
};

// Whether this user can be told from others in our user namespace.
[[nodiscard]] bool has_number(uid_t user);

// Asks by one socket, which is opened with the first question and stays open: so it can ask also
// when no descriptor is left. Resource; one thread.
class SocketDiag {
 public:
  // The owner of the socket that is bound to `own` and connected with `other`. Nothing: our network
  // namespace has no such socket. That is so for one of another machine or of a container with its
  // own network; for one that only asks to be connected; and for one that was closed and whose
  // owner the kernel has forgotten. Errors: not_possible, where this kernel cannot be asked at all;
  // any other code, where it could not be asked now.
  //
  // The pair of addresses may belong to another socket at another time. Who acts on the answer
  // looks afterwards that his own end of the connection is still connected.
  [[nodiscard]] Result<std::optional<SocketOwner>> owner_of(const SocketAddress& own,
                                                            const SocketAddress& other);

 private:
  UniqueFd netlink_;
};

}  // namespace muster
