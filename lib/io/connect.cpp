// SPDX-License-Identifier: Apache-2.0
#include "io/connect.hpp"

#include "io/wait_ready.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace muster {
namespace {

void set_flag(int fd, int level, int name, int value) {
  // These options cannot fail on a TCP socket, and the connection works without them.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof(value)));
}

// While connecting, ICMP errors go to a separate queue, so that a refusal by a firewall can be
// distinguished from a refusal by the remote kernel.
void keep_icmp(int fd, int family, bool keep) {
  set_flag(fd,
           family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
           family == AF_INET ? IP_RECVERR : IPV6_RECVERR,
           keep ? 1 : 0);
}

bool was_icmp(int fd) {
  std::array<char, 512> control{};
  msghdr message{};
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  if (::recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
    return false;
  }
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); one != nullptr; one = CMSG_NXTHDR(&message, one)) {
    const bool v4 = one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_RECVERR;
    const bool v6 = one->cmsg_level == IPPROTO_IPV6 && one->cmsg_type == IPV6_RECVERR;
    if (v4 || v6) {
      sock_extended_err error{};
      std::copy_n(CMSG_DATA(one), sizeof(error), reinterpret_cast<unsigned char*>(&error));
      return error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6;
    }
  }
  return false;
}

void bind_source(int fd, const SocketAddress& source) {
  // Without this option, bind() would choose a port, possibly one already in use for connections to
  // this peer.
  set_flag(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  // If the address no longer exists, the kernel chooses another source address.
  static_cast<void>(::bind(fd, source.get(), source.size));
}

// Another thread may shut down the socket, and the peer may then close it, before the caller looks.
// Such a socket is always writable and never connected, so a caller that waited for it would spin.
bool is_closed(int fd) {
  pollfd now{fd, POLLOUT, 0};
  return ::poll(&now, 1, 0) > 0 && (now.revents & POLLHUP) != 0;
}

bool is_of_this_machine(int errno_value) {
  return errno_value == EMFILE || errno_value == ENFILE || errno_value == ENOBUFS ||
         errno_value == ENOMEM;
}

}  // namespace

void set_keepalive(int fd, const KeepAlive& keepalive) {
  set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_flag(fd, IPPROTO_TCP, TCP_KEEPIDLE, keepalive.idle_seconds);
  set_flag(fd, IPPROTO_TCP, TCP_KEEPINTVL, keepalive.interval_seconds);
  set_flag(fd, IPPROTO_TCP, TCP_KEEPCNT, keepalive.probes);
}

Connecting start_connect(const SocketAddress& to, const ConnectOptions& options) {
  Connecting out;
  out.fd = UniqueFd(::socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!out.fd) {
    out.error = errno;
    return out;
  }
  const int fd = out.fd.get();
  set_flag(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_flag(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (options.keepalive) {
    set_keepalive(fd, *options.keepalive);
  }
  keep_icmp(fd, to.family(), true);
  if (options.source && options.source->family() == to.family()) {
    bind_source(fd, *options.source);
  }
  out.error = ::connect(fd, to.get(), to.size) == 0 ? EINPROGRESS : errno;
  return out;
}

int finish_connect(int fd) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    return errno;
  }
  if (error == ECONNREFUSED && was_icmp(fd)) {
    return EHOSTUNREACH;
  }
  if (error != 0) {
    return error;
  }
  const SocketAddress there = peer_address(fd);
  if (there.size == 0) {
    return is_closed(fd) ? ECONNABORTED : EINPROGRESS;
  }
  keep_icmp(fd, there.family(), false);
  return local_address(fd) == there ? ECONNREFUSED : 0;
}

std::expected<UniqueFd, int> connect_until(const SocketAddress& to,
                                           TimePoint deadline,
                                           const ConnectOptions& options) {
  Connecting connecting = start_connect(to, options);
  int error = connecting.error;
  while (error == EINPROGRESS || error == EINTR) {
    if (!wait_ready(connecting.fd.get(), POLLOUT, deadline)) {
      return std::unexpected(ETIMEDOUT);
    }
    error = finish_connect(connecting.fd.get());
  }
  if (error != 0) {
    return std::unexpected(error);
  }
  return std::move(connecting.fd);
}

Error connect_error(const SocketAddress& to, int errno_value) {
  if (is_of_this_machine(errno_value)) {
    return system_error("cannot create a socket", errno_value);
  }
  if (errno_value == ETIMEDOUT) {
    return {Errc::timed_out, "no response from " + to.host()};
  }
  if (errno_value == EINVAL && to.is_link_local()) {
    return {Errc::unreachable,
            to.host() + " is a link-local address and needs its interface, such as fe80::1%eth0"};
  }
  return {Errc::unreachable, errno_text(errno_value)};
}

}  // namespace muster
