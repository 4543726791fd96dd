// SPDX-License-Identifier: Apache-2.0
// Measures the link between two processes, directly and through a slow proxy.
#include "check/probe/link_probe.hpp"

#include "base/clock.hpp"
#include "io/connect.hpp"
#include "io/held_port.hpp"
#include "io/socket_address.hpp"
#include "io/wait_ready.hpp"
#include "rendezvous/server/listener.hpp"
#include "support/catch.hpp"

#include <array>
#include <csignal>
#include <string>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster::check {
namespace {

constexpr const char* kHost = "127.0.0.1";
const std::string kKey(kLinkKeyBytes, 'a');

TimePoint soon() {
  return steady_now() + std::chrono::seconds(20);
}

HeldPort hold_port() {
  auto port = HeldPort::take({});
  REQUIRE(port);
  return std::move(*port);
}

// A child process that is killed at the end of the test.
class Child {
 public:
  template <class Run>
  explicit Child(const Run& run) : pid_(::fork()) {
    if (pid_ == 0) {
      run();
      ::_exit(0);
    }
  }

  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

 private:
  pid_t pid_;
};

// Forwards what one side sends, with pauses.
void forward(int from, int to, int pause_ms) {
  std::array<char, 16384> piece{};
  const ssize_t got = ::recv(from, piece.data(), piece.size(), 0);
  if (got <= 0) {
    ::shutdown(to, SHUT_WR);
    return;
  }
  ::poll(nullptr, 0, pause_ms);
  for (ssize_t sent = 0; sent < got && wait_ready(to, POLLOUT, soon());) {
    const ssize_t count = ::send(to, piece.data() + sent, static_cast<std::size_t>(got - sent), 0);
    sent += count > 0 ? count : 0;
  }
}

// A link that carries at most 16 KiB in 10 ms.
void run_slow_proxy(int listener, std::uint16_t server) {
  static_cast<void>(wait_ready(listener, POLLIN, soon()));
  const int client = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK);
  const TimePoint limit = soon();
  auto there = connect_until(*SocketAddress::parse(kHost, server), limit);
  while (!there && steady_now() < limit) {  // the server does not listen yet
    there = connect_until(*SocketAddress::parse(kHost, server), limit);
  }
  while (true) {
    std::array<pollfd, 2> fds{{{client, POLLIN, 0}, {there->get(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), -1);
    if (fds[0].revents != 0) {
      forward(client, there->get(), 10);
    }
    if (fds[1].revents != 0) {
      forward(there->get(), client, 0);
    }
  }
}

NodeFigures measure(std::uint16_t port, const std::string& key, Duration limit) {
  NodeFigures out;
  measure_links({.key = key, .peers = {{3, kHost, port}}}, steady_now() + limit, out);
  return out;
}

TEST_CASE("check: the latency and the bandwidth of a link") {
  const HeldPort port = hold_port();
  const LinkPlan plan{.key = kKey, .self = {0, kHost, port.number()}, .incoming = 1};
  const Child server([&plan] { serve_links(plan, soon()); });
  const NodeFigures out = measure(port.number(), kKey, std::chrono::seconds(20));
  CHECK(out.unmeasured.empty());
  REQUIRE(out.links.size() == 1);
  CHECK(out.links[0].to == 3);
  CHECK(out.links[0].latency > 0);
  CHECK(out.links[0].latency < 1);
  CHECK(out.links[0].bandwidth > 1e6);
}

TEST_CASE("check: a slow link") {
  const HeldPort port = hold_port();
  const auto listener = listen_in_range(kHost, {});
  REQUIRE(listener);
  const int small = 32768;
  ::setsockopt(listener->get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  const LinkPlan plan{.key = kKey, .self = {0, kHost, port.number()}, .incoming = 1};
  const Child server([&plan] { serve_links(plan, soon()); });
  const Child proxy([&] { run_slow_proxy(listener->get(), port.number()); });
  const NodeFigures out = measure(port_of(listener->get()), kKey, std::chrono::seconds(3));
  REQUIRE(out.links.size() == 1);
  CHECK(out.links[0].latency >= 0.01);
  CHECK(out.links[0].bandwidth < 12.5e6);
}

TEST_CASE("check: a connection without the key is closed") {
  const HeldPort port = hold_port();
  const LinkPlan plan{.key = kKey, .self = {0, kHost, port.number()}, .incoming = 1};
  const Child server([&plan] { serve_links(plan, soon()); });
  const std::string wrong(kLinkKeyBytes, 'b');
  const NodeFigures refused = measure(port.number(), wrong, std::chrono::seconds(20));
  CHECK(refused.links.empty());
  CHECK(refused.unmeasured.size() == 1);
  CHECK(measure(port.number(), kKey, std::chrono::seconds(20)).links.size() == 1);
}

TEST_CASE("check: a node that does not answer") {
  const HeldPort port = hold_port();
  const NodeFigures out = measure(port.number(), kKey, std::chrono::milliseconds(50));
  CHECK(out.links.empty());
  REQUIRE(out.unmeasured.size() == 1);
  CHECK(out.unmeasured[0].starts_with("a link: "));
}

TEST_CASE("check: waiting for a CPU does not make a link slow") {
  using std::chrono::milliseconds;
  CHECK(time_on_link(milliseconds(60), {}, {}) == milliseconds(60));
  CHECK(time_on_link(milliseconds(60), milliseconds(20), milliseconds(10)) == milliseconds(30));
  // A small rest is not accurate, and the other end may send any number.
  CHECK(time_on_link(milliseconds(60), milliseconds(60), milliseconds(60)) == milliseconds(15));
  CHECK(time_on_link(milliseconds(60), {}, Duration::max()) == milliseconds(15));
  CHECK(time_on_link(milliseconds(60), {}, Duration::min()) == milliseconds(60));
}

TEST_CASE("check: the plan survives the environment") {
  const LinkPlan plan{.key = kKey,
                      .self = {1, "10.0.0.2", 4711},
                      .incoming = 2,
                      .peers = {{2, "fe80::1%eth0", 1}, {3, "10.0.0.4", 65535}}};
  CHECK(decode_link_plan(encode(plan)) == plan);
  for (const std::string text : {"", "key", "key 1 a", "key 1 0|a|1"}) {
    CHECK_FALSE(decode_link_plan(text));
  }
  CHECK_FALSE(decode_link_plan(encode(plan) + " 1|a|65536"));
}

}  // namespace
}  // namespace muster::check
