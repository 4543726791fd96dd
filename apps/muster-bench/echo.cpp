// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/echo.hpp"

#include "base/fd.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace muster::bench {
namespace {

constexpr int kEvents = 256;
constexpr std::size_t kBuffer = std::size_t{64} * 1024;
constexpr std::size_t kAnnouncement = 2 * sizeof(std::uint32_t);

// Uses only 12 bytes per connection: the announced lengths and the received bytes of a request.
struct Peer {
  std::uint32_t request = 0;
  std::uint32_t reply = 0;
  std::uint32_t have = 0;
};

class EchoServer {
 public:
  Result<void> listen_on(std::uint16_t port);
  Result<void> run();

 private:
  void accept_all();
  void serve(int fd);
  void greet(int fd, Peer& peer, std::size_t size);

  UniqueFd epoll_{epoll_create1(EPOLL_CLOEXEC)};
  UniqueFd listener_;
  std::vector<Peer> peers_;  // indexed by descriptor
  std::array<char, kBuffer> buffer_{};
  std::string answers_ = std::string(kBuffer, 'a');
};

Result<void> EchoServer::listen_on(std::uint16_t port) {
  listener_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_.get(), SOMAXCONN) != 0) {
    return std::unexpected(system_error("the echo server cannot listen", errno));
  }
  epoll_event interest{};
  interest.events = EPOLLIN;
  interest.data.fd = listener_.get();
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &interest);
  return {};
}

void EchoServer::accept_all() {
  for (;;) {
    const int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
      return;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const auto slot = static_cast<std::size_t>(fd);
    peers_.resize(std::max(peers_.size(), slot + 1));
    peers_[slot] = Peer{};
    epoll_event interest{};
    interest.events = EPOLLIN;
    interest.data.fd = fd;
    epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &interest);
  }
}

void EchoServer::greet(int fd, Peer& peer, std::size_t size) {
  if (size != kAnnouncement) {
    close(fd);
    return;
  }
  std::memcpy(&peer.request, buffer_.data(), sizeof peer.request);
  std::memcpy(&peer.reply, buffer_.data() + sizeof peer.request, sizeof peer.reply);
  send(fd, "e", 1, MSG_NOSIGNAL);
}

void EchoServer::serve(int fd) {
  const auto got = recv(fd, buffer_.data(), buffer_.size(), 0);
  if (got <= 0) {
    if (got == 0 || errno != EAGAIN) {
      close(fd);
    }
    return;
  }
  auto& peer = peers_[static_cast<std::size_t>(fd)];
  if (peer.request == 0) {
    greet(fd, peer, static_cast<std::size_t>(got));
    return;
  }
  peer.have += static_cast<std::uint32_t>(got);
  const std::size_t requests = peer.have / peer.request;
  peer.have %= peer.request;
  const auto bytes = std::min(requests * peer.reply, answers_.size());
  if (bytes > 0 && send(fd, answers_.data(), bytes, MSG_NOSIGNAL) < 0) {
    close(fd);
  }
}

Result<void> EchoServer::run() {
  std::array<epoll_event, kEvents> events;
  for (;;) {
    const int ready = epoll_wait(epoll_.get(), events.data(), kEvents, -1);
    if (ready < 0 && errno != EINTR) {
      return std::unexpected(system_error("the echo server cannot wait for clients", errno));
    }
    for (int i = 0; i < ready; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == listener_.get()) {
        accept_all();
      } else {
        serve(fd);
      }
    }
  }
}

}  // namespace

Result<void> serve_echo(std::uint16_t port) {
  EchoServer server;
  if (auto listening = server.listen_on(port); !listening) {
    return listening;
  }
  return server.run();
}

}  // namespace muster::bench
