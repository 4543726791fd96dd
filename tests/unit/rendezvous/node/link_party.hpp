// SPDX-License-Identifier: Apache-2.0
// LinkSockets that a test drives, and plain sockets that connect to them. For tests.
#pragma once

#include "base/clock.hpp"
#include "rendezvous/node/link_sockets.hpp"
#include "rendezvous/server/listener.hpp"
#include "support/catch.hpp"
#include "unit/rendezvous/wire/round_samples.hpp"

#include <array>
#include <cerrno>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace muster::testing {

// LinkSockets with a listener, driven by the test, and their events.
class Party {
 public:
  explicit Party(const LinkLimits& limits = {}) {
    auto opened = LinkSockets::open(limits, [this](NodeEvent event) {
      if (on_event) {
        on_event(event);
      }
      events.push_back(std::move(event));
    });
    REQUIRE(opened);
    sockets = std::move(*opened);
    auto listener = listen_on("127.0.0.1", 0);
    REQUIRE(listener);
    port = port_of(listener->get());
    sockets->add_listener(std::move(*listener));
  }

  void turn() {
    sockets->serve(steady_now());
    sockets->settle(steady_now());
  }

  void connect(LinkId id, std::uint16_t to, Duration timeout = std::chrono::seconds(5)) {
    sockets->connect(id, {*SocketAddress::parse("127.0.0.1", to)}, timeout);
  }

  void say(LinkId id, const RoundMessage& message) { sockets->send(id, *encode_shared(message)); }

  template <class Event>
  [[nodiscard]] std::vector<Event> all() const {
    std::vector<Event> out;
    for (const NodeEvent& event : events) {
      if (const auto* one = std::get_if<Event>(&event)) {
        out.push_back(*one);
      }
    }
    return out;
  }

  std::function<void(const NodeEvent&)> on_event;
  std::vector<NodeEvent> events;
  std::unique_ptr<LinkSockets> sockets;
  std::uint16_t port = 0;
};

inline bool until(std::initializer_list<Party*> parties, const std::function<bool()>& condition) {
  const TimePoint deadline = steady_now() + std::chrono::seconds(20);
  while (!condition() && steady_now() < deadline) {
    std::vector<pollfd> watched;
    for (Party* party : parties) {
      party->turn();
      watched.push_back({party->sockets->fd(), POLLIN, 0});
    }
    ::poll(watched.data(), watched.size(), 2);
  }
  return condition();
}

// A plain socket connected to the party.
inline UniqueFd plain(const Party& party) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto there = SocketAddress::parse("127.0.0.1", party.port);
  REQUIRE(::connect(fd.get(), there->get(), there->size) == 0);
  return fd;
}

inline void write(const UniqueFd& fd, std::string_view bytes) {
  // The other side may have closed already; the test checks how it reacts.
  static_cast<void>(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// Everything that can be read without waiting; sets `closed` at end-of-file.
inline std::string read_some(const UniqueFd& fd, bool& closed) {
  std::string out;
  std::array<char, 4096> buffer{};
  while (true) {
    const auto count = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count <= 0) {
      closed = count == 0 || errno == ECONNRESET;
      return out;
    }
    out.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

inline bool is_closed(const UniqueFd& fd) {
  bool closed = false;
  static_cast<void>(read_some(fd, closed));
  return closed;
}

inline std::string hello_bytes() {
  std::string out = round_introduction({});
  REQUIRE(append_frame(out, followers_samples().front()));
  return out;
}

}  // namespace muster::testing
