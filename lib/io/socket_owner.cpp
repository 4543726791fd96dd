// SPDX-License-Identifier: Apache-2.0
#include "io/socket_owner.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::string_view kAsking = "cannot query the owner of a socket";

// lo has this index in every network namespace. If a socket is bound to an interface, only a query
// with that interface's index finds it. Any other socket is found with every index.
constexpr std::uint32_t kLoopbackInterface = 1;

// Classifies the errno of a query: either the kernel does not support such queries, or only this
// query failed.
Error cannot_ask(int why) {
  constexpr std::array kNever{
      ENOENT, EPROTONOSUPPORT, EAFNOSUPPORT, EOPNOTSUPP, ENOSYS, EPERM, EACCES, EINVAL};
  Error error = system_error(kAsking, why);
  if (std::ranges::find(kNever, why) != kNever.end()) {
    error.code = Errc::not_possible;
  }
  return error;
}

struct Request {
  nlmsghdr header;
  inet_diag_req_v2 body;
};

union Reply {
  nlmsghdr header;
  std::array<char, 1024> bytes;
};

using Place = std::array<std::uint32_t, 4>;  // an address in the kernel's format

// A connection that uses IPv4 on the wire is queried as IPv4, even if its sockets are IPv6 sockets.
struct End {
  int family = 0;
  Place place{};
  std::uint16_t port = 0;
  std::uint32_t interface = kLoopbackInterface;
};

End end_of(const SocketAddress& address) {
  End out{address.family(), {}, htons(address.port())};
  if (address.family() == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &address.storage, sizeof(v4));
    out.place[0] = v4.sin_addr.s_addr;
    return out;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &address.storage, sizeof(v6));
  std::memcpy(out.place.data(), &v6.sin6_addr, sizeof(out.place));
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr) != 0) {
    out.family = AF_INET;
    out.place = {out.place[3]};
  } else if (v6.sin6_scope_id != 0) {
    out.interface = v6.sin6_scope_id;
  }
  return out;
}

Request request_for(const End& own, const End& other) {
  Request out{};
  out.header.nlmsg_len = sizeof(out);
  out.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  out.header.nlmsg_flags = NLM_F_REQUEST;
  out.body.sdiag_family = static_cast<std::uint8_t>(own.family);
  out.body.sdiag_protocol = IPPROTO_TCP;
  out.body.idiag_states = ~std::uint32_t{0};
  out.body.id.idiag_sport = own.port;
  out.body.id.idiag_dport = other.port;
  std::ranges::copy(own.place, out.body.id.idiag_src);
  std::ranges::copy(other.place, out.body.id.idiag_dst);
  out.body.id.idiag_if = own.interface;
  std::ranges::fill(out.body.id.idiag_cookie, INET_DIAG_NOCOOKIE);
  return out;
}

// The kernel replies before the request returns, so no wait is needed. Skips unread replies to
// earlier queries.
Result<std::size_t> exchange(int netlink, Request request, Reply& reply) {
  thread_local std::uint32_t last = 0;
  request.header.nlmsg_seq = ++last;
  if (::send(netlink, &request, sizeof(request), 0) < 0) {
    return std::unexpected(cannot_ask(errno));
  }
  sockaddr_nl from{};
  ssize_t got = 0;
  do {
    socklen_t from_size = sizeof(from);
    got = ::recvfrom(
        netlink, &reply, sizeof(reply), 0, reinterpret_cast<sockaddr*>(&from), &from_size);
    if (got < 0) {
      return std::unexpected(cannot_ask(errno));
    }
  } while (static_cast<std::size_t>(got) >= sizeof(nlmsghdr) &&
           reply.header.nlmsg_seq != request.header.nlmsg_seq);
  const auto size = static_cast<std::size_t>(got);
  if (from.nl_pid != 0 || size < sizeof(nlmsghdr) || reply.header.nlmsg_len > size) {
    return failure(Errc::system, std::string(kAsking) + ": invalid reply from the kernel");
  }
  return size;
}

// The errno in an error reply; 0 for any other reply.
int error_in(const Reply& reply, std::size_t size) {
  nlmsgerr said{};
  if (reply.header.nlmsg_type != NLMSG_ERROR || size < NLMSG_HDRLEN + sizeof(said)) {
    return 0;
  }
  std::memcpy(&said, reply.bytes.data() + NLMSG_HDRLEN, sizeof(said));
  return -said.error;
}

// ENOENT means either that there is no such socket or that the kernel was built without this query.
// To distinguish the two, dump the sockets in an empty set of states: a kernel that supports the
// query returns an empty list.
Result<void> check_that_kernel_answers(int netlink, int family) {
  Request request = request_for({family}, {family});
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.idiag_states = 0;
  Reply reply{};
  const auto size = exchange(netlink, request, reply);
  MUSTER_RETURN_IF_ERROR(size);
  int said = error_in(reply, *size);
  if (reply.header.nlmsg_type == NLMSG_DONE && *size >= NLMSG_HDRLEN + sizeof(said)) {
    std::memcpy(&said, reply.bytes.data() + NLMSG_HDRLEN, sizeof(said));
  }
  return said == 0 ? Result<void>() : std::unexpected(cannot_ask(std::abs(said)));
}

// The kernel returns the connection with exactly these two ends or, if there is none, a listener on
// that port. The socket's state distinguishes them.
bool is_connected(int state) {
  constexpr std::array kConnected{
      TCP_ESTABLISHED, TCP_FIN_WAIT1, TCP_FIN_WAIT2, TCP_CLOSE_WAIT, TCP_LAST_ACK, TCP_CLOSING};
  return std::ranges::find(kConnected, state) != kConnected.end();
}

std::string beginning_of(const char* path) {
  const UniqueFd file(::open(path, O_RDONLY | O_CLOEXEC));
  std::array<char, 16384> text{};
  const auto got = file ? ::read(file.get(), text.data(), text.size()) : 0;
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

// The uid that the kernel reports for all users without a mapping in our user namespace.
std::optional<uid_t> number_of_unknown_users() {
  constexpr std::int64_t kAllUsers = 0xFFFFFFFF;
  constexpr std::int64_t kUsual = 65534;
  std::int64_t known = 0;
  for (const std::string_view line : split(beginning_of("/proc/self/uid_map"), '\n')) {
    known += parse_int(line.substr(line.find_last_of(' ') + 1)).value_or(0);
  }
  if (known >= kAllUsers) {
    return std::nullopt;
  }
  const std::string number = beginning_of("/proc/sys/kernel/overflowuid");
  return static_cast<uid_t>(parse_int(trim(number)).value_or(kUsual));
}

// Older kernels report uid 0 for a closed socket whose last bytes are still in flight. All kernels
// do so for sockets in TIME_WAIT.
std::optional<SocketOwner> owner_in(const inet_diag_msg& found) {
  if (found.idiag_inode == 0 && found.idiag_uid == 0) {
    return std::nullopt;
  }
  SocketOwner out{found.idiag_uid, found.idiag_inode};
  if (out.uid == number_of_unknown_users()) {
    out.uid.reset();
  }
  return out;
}

}  // namespace

bool has_number(uid_t user) {
  return user != number_of_unknown_users();
}

Result<std::optional<SocketOwner>> SocketDiag::owner_of(const SocketAddress& own_address,
                                                        const SocketAddress& other_address) {
  const End own = end_of(own_address);
  const End other = end_of(other_address);
  if (own.family != other.family) {
    return std::nullopt;
  }
  if (!netlink_) {
    netlink_ =
        UniqueFd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG));
  }
  if (!netlink_) {
    return std::unexpected(cannot_ask(errno));
  }
  Reply reply{};
  const auto size = exchange(netlink_.get(), request_for(own, other), reply);
  MUSTER_RETURN_IF_ERROR(size);
  if (const int error = error_in(reply, *size); error == ENOENT) {
    const auto answers = check_that_kernel_answers(netlink_.get(), own.family);
    return answers ? Result<std::optional<SocketOwner>>(std::nullopt)
                   : std::unexpected(answers.error());
  } else if (error != 0) {
    return std::unexpected(cannot_ask(error));
  }
  inet_diag_msg found{};
  if (reply.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || *size < NLMSG_HDRLEN + sizeof(found)) {
    return failure(Errc::system, std::string(kAsking) + ": invalid reply from the kernel");
  }
  std::memcpy(&found, reply.bytes.data() + NLMSG_HDRLEN, sizeof(found));
  return is_connected(found.idiag_state) ? owner_in(found) : std::nullopt;
}

}  // namespace muster
