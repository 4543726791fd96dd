// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/connection.hpp"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace muster::bench {
namespace {

constexpr int kTimeoutMs = 10'000;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

const sockaddr* generic(const sockaddr_in* address) {
  return reinterpret_cast<const sockaddr*>(address);
}

Result<void> wait_for(int fd, short what) {
  pollfd waiting{fd, what, 0};
  const int ready = poll(&waiting, 1, kTimeoutMs);
  if (ready < 0 && errno != EINTR) {
    return std::unexpected(system_error("cannot wait for a server", errno));
  }
  if (ready == 0) {
    return failure(Errc::timed_out, "no answer from a server within 10 s");
  }
  return {};
}

}  // namespace

Result<UniqueFd> connect_to(std::uint16_t port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) {
    return std::unexpected(system_error("cannot create a socket", errno));
  }
  const int on = 1;
  setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const linger at_once{1, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  const auto address = loopback(port);
  if (connect(fd.get(), generic(&address), sizeof address) != 0) {
    return std::unexpected(
        system_error("cannot connect to 127.0.0.1:" + std::to_string(port), errno));
  }
  return fd;
}

Result<void> send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) {
      return std::unexpected(system_error("cannot send to a server", errno));
    }
    if (auto ready = wait_for(fd, POLLOUT); !ready) {
      return ready;
    }
  }
  return {};
}

Result<std::string> receive(int fd, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    MUSTER_RETURN_IF_ERROR(wait_for(fd, POLLIN));
    const auto got = recv(fd, bytes.data() + have, size - have, 0);
    if (got == 0) {
      return failure(Errc::closed, "a server closed the connection");
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
      return std::unexpected(system_error("cannot receive from a server", errno));
    }
    have += got > 0 ? static_cast<std::size_t>(got) : 0;
  }
  return bytes;
}

Result<void> converse(int fd, const Exchange& step) {
  if (auto sent = send_all(fd, step.request); !sent) {
    return sent;
  }
  const auto answer = receive(fd, step.reply.size());
  MUSTER_RETURN_IF_ERROR(answer);
  if (step.exact && *answer != step.reply) {
    return failure(Errc::protocol, "a server sent a wrong answer");
  }
  return {};
}

}  // namespace muster::bench
