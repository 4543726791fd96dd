// SPDX-License-Identifier: Apache-2.0
#include "http/server.hpp"

#include "base/clock.hpp"
#include "base/unix_socket.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kReadBytes = 4096;
constexpr int kAcceptsAtOnce = 8;
constexpr int kSendsAtOnce = 4;
constexpr std::size_t kSendBytesMax = std::size_t{64} * 1024;
constexpr Duration kTick = std::chrono::seconds(1);
// Events arrive in bursts, because a round starts all workers within a few milliseconds.
constexpr Duration kGatherEvents = std::chrono::milliseconds(50);
constexpr int kLastSends = 64;  // maximum sends per connection when the server closes

bool would_block(int error) {
  return error == EAGAIN || error == EINTR;
}

bool is_own_user(int fd) {
  const auto peer = peer_of(fd);
  return peer && (peer->uid == ::geteuid() || peer->uid == 0);
}

struct Connection {
  asio::posix::stream_descriptor socket;
  HttpSession session;
  bool reading = false;  // a wait for readability is pending
  bool writing = false;
  bool closed = false;
  bool shut = false;  // our sending side is shut down
};

using ConnectionPtr = std::shared_ptr<Connection>;

}  // namespace

struct HttpServer::Impl : std::enable_shared_from_this<HttpServer::Impl> {
  asio::io_context& loop;
  HttpSite& site;
  HttpAccess access;
  bool own_user_only;
  HttpCounts counts;
  asio::posix::stream_descriptor listener;
  asio::steady_timer tick;
  asio::steady_timer gather;
  bool ticking = false;
  bool gathering = false;
  bool accept_later = false;
  std::vector<ConnectionPtr> connections;

  Impl(asio::io_context& io, HttpListener&& from, HttpSite& what)
      : loop(io),
        site(what),
        access(from.access),
        own_user_only(from.own_user_only),
        listener(io, from.socket.release()),
        tick(io),
        gather(io) {}

  void wait_for_clients() {
    listener.async_wait(asio::posix::stream_descriptor::wait_read,
                        [self = weak_from_this()](const asio::error_code& error) {
                          if (const auto impl = self.lock(); impl && !error) {
                            impl->accept_some();
                          }
                        });
  }

  // If the process is out of descriptors, the next tick accepts again.
  void accept_some() {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      UniqueFd fd(
          ::accept4(listener.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
          static_cast<void>(make_room());
          accept_later = true;
          begin_ticking();
          return;
        }
        break;
      }
      adopt(std::move(fd));
    }
    wait_for_clients();
  }

  void adopt(UniqueFd fd) {
    const bool stranger = own_user_only && !is_own_user(fd.get());
    if (stranger || (connections.size() >= kHttpConnectionsMax && !make_room())) {
      ++counts.refused;
      return;
    }
    connections.push_back(
        std::make_shared<Connection>(Connection{asio::posix::stream_descriptor(loop, fd.release()),
                                                HttpSession(site, access, counts, steady_now())}));
    go_on(connections.back());
    begin_ticking();
  }

  // Closes the connection that has been idle for the longest time. False if no connection is idle.
  bool make_room() {
    const auto older = [](const ConnectionPtr& a, const ConnectionPtr& b) {
      const bool idle_a = a->session.is_idle();
      const bool idle_b = b->session.is_idle();
      return idle_a != idle_b ? idle_a : a->session.last_active() < b->session.last_active();
    };
    const auto oldest = std::ranges::min_element(connections, older);
    if (oldest == connections.end() || !(*oldest)->session.is_idle()) {
      return false;
    }
    ++counts.refused;
    drop(*oldest);
    return true;
  }

  void drop(ConnectionPtr one) {
    one->closed = true;
    asio::error_code ignored;
    one->socket.close(ignored);
    std::erase(connections, one);
  }

  // Sends pending output, then waits for the next event.
  void go_on(const ConnectionPtr& one) {
    if (!send_some(*one)) {
      drop(one);
      return;
    }
    if (!one->session.output().empty()) {
      wait_to_write(one);
      return;
    }
    if (one->session.close_wanted() && !one->shut) {
      // Let the client close first. Closing a socket with unread input would send a reset, which
      // could discard the response.
      ::shutdown(one->socket.native_handle(), SHUT_WR);
      one->shut = true;
    }
    wait_to_read(one);
  }

  // False if the connection is broken.
  static bool send_some(Connection& one, int times = kSendsAtOnce) {
    for (int i = 0; i < times && !one.session.output().empty(); ++i) {
      const std::string_view part = one.session.output().substr(0, kSendBytesMax);
      const ssize_t count =
          ::send(one.socket.native_handle(), part.data(), part.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0) {
        return would_block(errno);
      }
      one.session.sent(static_cast<std::size_t>(count), steady_now());
    }
    return true;
  }

  void wait_to_write(const ConnectionPtr& one) {
    if (std::exchange(one->writing, true)) {
      return;
    }
    one->socket.async_wait(asio::posix::stream_descriptor::wait_write,
                           [self = weak_from_this(), one](const asio::error_code& error) {
                             one->writing = false;
                             if (const auto impl = self.lock(); impl && !error && !one->closed) {
                               impl->go_on(one);
                             }
                           });
  }

  void wait_to_read(const ConnectionPtr& one) {
    if (std::exchange(one->reading, true)) {
      return;
    }
    one->socket.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = weak_from_this(), one](const asio::error_code& error) {
                             one->reading = false;
                             if (const auto impl = self.lock(); impl && !error && !one->closed) {
                               impl->read(one);
                             }
                           });
  }

  void read(const ConnectionPtr& one) {
    if (!one->session.output().empty()) {
      return;  // finish the response first; go_on then waits for input
    }
    std::array<char, kReadBytes> bytes{};
    const ssize_t count =
        ::recv(one->socket.native_handle(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && !would_block(errno))) {
      drop(one);
      return;
    }
    if (count > 0 && !one->shut) {
      counts.streams = count_streams();
      one->session.take({bytes.data(), static_cast<std::size_t>(count)}, steady_now());
    }
    go_on(one);
  }

  // Starts a tick that checks deadlines every second while any client is connected.
  void begin_ticking() {
    if (std::exchange(ticking, true)) {
      return;
    }
    tick.expires_after(kTick);
    tick.async_wait([self = weak_from_this()](const asio::error_code& error) {
      if (const auto impl = self.lock(); impl && !error) {
        impl->ticking = false;
        impl->look_at_all();
      }
    });
  }

  void look_at_all() {
    const TimePoint now = steady_now();
    for (const ConnectionPtr& one : std::vector<ConnectionPtr>(connections)) {
      if (one->session.deadline() <= now) {
        drop(one);
      } else if (one->session.streams()) {
        one->session.poll_events(now);
        go_on(one);
      }
    }
    if (std::exchange(accept_later, false)) {
      wait_for_clients();
    }
    if (!connections.empty()) {
      begin_ticking();
    }
  }

  [[nodiscard]] std::size_t count_streams() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        connections, [](const ConnectionPtr& one) { return one->session.streams(); }));
  }

  void pass_events_soon() {
    if (count_streams() == 0 || std::exchange(gathering, true)) {
      return;
    }
    gather.expires_after(kGatherEvents);
    gather.async_wait([self = weak_from_this()](const asio::error_code& error) {
      if (const auto impl = self.lock(); impl && !error) {
        impl->gathering = false;
        impl->pass_events();
      }
    });
  }

  void pass_events() {
    for (const ConnectionPtr& one : std::vector<ConnectionPtr>(connections)) {
      one->session.poll_events(steady_now());
      go_on(one);
    }
  }

  void close() {
    for (const ConnectionPtr& one : std::vector<ConnectionPtr>(connections)) {
      one->session.poll_events(steady_now());
      static_cast<void>(send_some(*one, kLastSends));
      drop(one);
    }
    asio::error_code ignored;
    listener.close(ignored);
    tick.cancel();
    gather.cancel();
  }
};

HttpServer::HttpServer(asio::io_context& loop, HttpListener listener, HttpSite& site)
    : impl_(std::make_shared<Impl>(loop, std::move(listener), site)) {
  impl_->wait_for_clients();
}

HttpServer::~HttpServer() {
  close();
}

void HttpServer::events_came() {
  impl_->pass_events_soon();
}

void HttpServer::close() {
  impl_->close();
}

const HttpCounts& HttpServer::counts() const {
  return impl_->counts;
}

}  // namespace muster
