// SPDX-License-Identifier: Apache-2.0
// SessionSockets driven by the test: silent connections, too few descriptors, admission.
#include "rendezvous/server/session_sockets.hpp"

#include "admission_fixture.hpp"
#include "base/clock.hpp"
#include "io/connect.hpp"
#include "rendezvous/server/listener.hpp"
#include "support/catch.hpp"
#include "support/hex.hpp"

#include <array>
#include <functional>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

using namespace muster;
using namespace std::chrono_literals;
using namespace muster::testing;

namespace {

const std::string kPing = from_hex("00CEF7853C 0D 01020304");
const std::string kPong = from_hex("01020304");
const std::string kSetKey = from_hex("00CEF7853C 01 01000000 00000000 6B 01000000 00000000 76");
const std::string kCountKeys = from_hex("00CEF7853C 07");

struct Store {
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  Store() {
    auto listener = listen_on("127.0.0.1", 0);
    REQUIRE(listener);
    port = port_of(listener->get());
    auto opened = SessionSockets::open(std::move(*listener));
    REQUIRE(opened);
    sockets = std::move(*opened);
    sockets->set_notice([this](const std::string& text) { notices.push_back(text); });
  }

  // Serves until the condition is true; the test fails if that never happens.
  void until(const std::function<bool()>& holds) {
    const TimePoint end = steady_now() + 30s;
    while (!holds()) {
      REQUIRE(steady_now() < end);
      pollfd watched{sockets->fd(), POLLIN, 0};
      static_cast<void>(::poll(&watched, 1, 10));
      sockets->serve();
    }
  }

  // Serves until there is nothing left to do.
  void settle() {
    while (is_ready(sockets->fd())) {
      sockets->serve();
    }
  }

  // A connection that the server has accepted.
  UniqueFd connect() {
    UniqueFd fd = dial();
    settle();
    return fd;
  }

  [[nodiscard]] UniqueFd dial() const {
    auto fd = connect_until(*SocketAddress::parse("127.0.0.1", port), steady_now() + 30s);
    REQUIRE(fd);
    return std::move(*fd);
  }

  ~Store() {
    if (sockets) {
      CHECK(sockets->check_invariants().empty());
    }
  }

  std::unique_ptr<SessionSockets> sockets;
  std::uint16_t port = 0;
  std::vector<std::string> notices;
};

void say(const UniqueFd& fd, const std::string& bytes) {
  REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(bytes.size()));
}

std::string hear(const UniqueFd& fd) {
  std::array<char, 256> buffer{};
  const auto count = ::recv(fd.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  return count > 0 ? std::string(buffer.data(), static_cast<std::size_t>(count)) : "";
}

bool is_closed(const UniqueFd& fd) {
  char byte = 0;
  const auto count = ::recv(fd.get(), &byte, 1, MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno == ECONNRESET);
}

}  // namespace

TEST_CASE("session sockets: silent connections use at most a quarter of the descriptors") {
  Store store;
  const FileLimit limit(64);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) {
    silent.push_back(store.connect());
  }
  CHECK(store.sockets->silent() == 16);
  for (std::size_t i = 0; i < silent.size(); ++i) {
    INFO(i);
    CHECK(is_closed(silent[i]) == (i < 4));  // the oldest
  }
  say(silent.back(), kPing);
  store.settle();
  CHECK(hear(silent.back()) == kPong);
  CHECK(store.sockets->silent() == 15);
  CHECK(store.notices.empty());
}

TEST_CASE("session sockets: a single byte does not turn a silent connection into a client") {
  Store store;
  const FileLimit limit(64);
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 20; ++i) {
    fds.push_back(store.connect());
    say(fds.back(), from_hex("00"));
    store.settle();
  }
  CHECK(store.sockets->silent() == 16);
}

TEST_CASE("session sockets: an unread greeting protects its connection") {
  Store store;
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 40; ++i) {
    fds.push_back(store.dial());
    say(fds.back(), kPing);
  }
  // All of them are in the backlog, and are accepted before any of them is read.
  const FileLimit limit(limit_for(80));
  store.settle();
  for (const UniqueFd& fd : fds) {
    CHECK(hear(fd) == kPong);
  }
}

TEST_CASE("session sockets: without a free descriptor it closes the oldest silent connection") {
  Store store;
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 8; ++i) {
    fds.push_back(store.dial());
  }
  say(fds.back(), kPing);
  const FileLimit limit(limit_for(3));
  store.until([&] { return !hear(fds.back()).empty(); });
  CHECK(is_closed(fds.front()));
  CHECK(store.notices.empty());
  CHECK_FALSE(store.sockets->next_deadline());
}

TEST_CASE("session sockets: a client that takes the last descriptor displaces no other client") {
  Store store;
  const UniqueFd silent = store.connect();
  const UniqueFd client = store.dial();
  say(client, kPing);
  const FileLimit limit(limit_for(1));
  store.settle();
  CHECK(hear(client) == kPong);
  CHECK_FALSE(is_closed(silent));
  CHECK_FALSE(store.sockets->next_deadline());
  CHECK(store.notices.empty());
}

TEST_CASE("session sockets: without descriptors it sleeps, warns once, and resumes later") {
  Store store;
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 8; ++i) {
    fds.push_back(store.dial());
    say(fds.back(), kPing);
  }
  FileLimit limit(limit_for(3));
  store.settle();
  // Three clients use all descriptors. The others wait, and the loop has nothing to do.
  CHECK(hear(fds[2]) == kPong);
  CHECK(hear(fds[3]).empty());
  CHECK_FALSE(is_closed(fds[3]));
  CHECK_FALSE(is_ready(store.sockets->fd()));
  REQUIRE(store.sockets->next_deadline());
  store.sockets->expire(*store.sockets->next_deadline());
  store.settle();
  CHECK_FALSE(is_ready(store.sockets->fd()));
  CHECK(store.notices == std::vector<std::string>{
                             "cannot accept another client: Too many open files; new connections "
                             "wait until another one closes; raise the limit on open files "
                             "(ulimit -n)"});
  // A client that disconnects frees its descriptor immediately; the rest are served once there are
  // descriptors.
  fds[0].reset();
  store.until([&] { return !hear(fds[3]).empty(); });
  limit.lift();
  REQUIRE(store.sockets->next_deadline());
  store.sockets->expire(*store.sockets->next_deadline());
  store.until([&] { return !hear(fds[7]).empty(); });
}

TEST_CASE("session sockets: answers nothing before a client is admitted") {
  Store store;
  HeldAdmission admission;
  const UniqueFd earlier = store.connect();
  say(earlier, kPing);
  store.settle();
  CHECK(hear(earlier) == kPong);
  store.sockets->set_admission(&admission);
  const UniqueFd client = store.connect();
  CHECK(admission.peers.empty());  // it has sent nothing yet
  say(client, kPing.substr(0, 7));
  store.settle();
  say(client, kPing.substr(7));
  store.settle();
  REQUIRE(admission.peers.size() == 1);
  const SocketAddress mine = local_address(client.get());
  CHECK(admission.peers[0] == PeerAddress{"127.0.0.1", mine.port(), "127.0.0.1", store.port});
  CHECK(hear(client).empty());
  CHECK(store.sockets->next_deadline());
  say(earlier, kPing.substr(5));
  store.settle();
  CHECK(hear(earlier) == kPong);  // others are served meanwhile
  admission.answers[0]({});
  store.settle();
  CHECK(hear(client) == kPong);
  CHECK_FALSE(store.sockets->next_deadline());
  say(client, kPing.substr(5));
  store.settle();
  CHECK(hear(client) == kPong);
  CHECK(admission.peers.size() == 1);
}

TEST_CASE("session sockets: closes a refused client, and logs the reason") {
  Store store;
  HeldAdmission admission;
  store.sockets->set_admission(&admission);
  const UniqueFd client = store.connect();
  say(client, kPing);
  store.settle();
  REQUIRE(admission.answers.size() == 1);
  admission.answers[0](failure(Errc::not_possible, "no key"));
  CHECK(is_closed(client));
  CHECK(store.notices ==
        std::vector<std::string>{"refused the connection from " +
                                 local_address(client.get()).describe() + ": no key"});
  admission.answers[0]({});
  store.settle();
}

TEST_CASE("session sockets: forgets a client that disconnects before the answer") {
  Store store;
  HeldAdmission admission;
  store.sockets->set_admission(&admission);
  UniqueFd client = store.connect();
  say(client, kPing);
  store.settle();
  client.reset();
  store.until([&] { return !store.sockets->next_deadline(); });
  // The next client has the same descriptor and session, but the late answer is not for it.
  const UniqueFd next = store.connect();
  say(next, kPing);
  store.settle();
  REQUIRE(admission.answers.size() == 2);
  admission.answers[0]({});
  store.settle();
  CHECK(hear(next).empty());
  admission.answers[1]({});
  CHECK(hear(next) == kPong);
  store.sockets.reset();
  admission.answers[1]({});  // the client is gone
}

TEST_CASE(
    "session sockets: connections that wait for admission are limited in number, bytes and time") {
  Store store;
  HeldAdmission admission;
  store.sockets->set_admission(&admission, {.sessions = 3, .first_bytes = 6, .answer = 20s});
  std::vector<UniqueFd> fds;
  for (int i = 0; i < 4; ++i) {
    fds.push_back(store.connect());
    say(fds.back(), kPing);
    store.settle();
  }
  CHECK(is_closed(fds[0]));
  REQUIRE(store.notices.size() == 1);
  CHECK(store.notices[0].ends_with("too many connections are waiting for admission"));
  // Six bytes of this one were read; the rest of its request stayed in the kernel.
  admission.answers[1]({});
  store.settle();
  CHECK(hear(fds[1]) == kPong);
  REQUIRE(store.sockets->next_deadline());
  store.sockets->expire(*store.sockets->next_deadline() - 1ms);
  CHECK_FALSE(is_closed(fds[2]));
  store.sockets->expire(steady_now() + 21s);
  CHECK(is_closed(fds[2]));
  CHECK(is_closed(fds[3]));
  CHECK(store.notices.size() == 1);  // one per minute
}

TEST_CASE("session sockets: an answer applies only to the connection for which it was requested") {
  Store store;
  HeldAdmission admission;
  store.sockets->set_admission(&admission);
  UniqueFd client = store.connect();
  say(client, kSetKey);
  store.settle();
  REQUIRE(admission.answers.size() == 1);
  // Its port is free immediately, so another process's socket may have been found there.
  const linger none{.l_onoff = 1, .l_linger = 0};
  REQUIRE(::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &none, sizeof(none)) == 0);
  client.reset();
  admission.answers[0]({});
  CHECK(store.notices.empty());
  const UniqueFd next = store.connect();
  say(next, kCountKeys);
  store.settle();
  REQUIRE(admission.answers.size() == 2);
  admission.answers[1]({});
  CHECK(hear(next) == from_hex("00000000 00000000"));
}

TEST_CASE("session sockets: hands over a node's connection without an admission query") {
  Store store;
  HeldAdmission admission;
  std::string read;
  store.sockets->set_admission(&admission);
  store.sockets->set_adopter([&](UniqueFd, const std::string& bytes) { read = bytes; });
  const UniqueFd node = store.connect();
  say(node, "\xA7MUSTER");
  store.until([&] { return !read.empty(); });
  CHECK(read == "\xA7MUSTER");
  CHECK(admission.peers.empty());
  CHECK(store.sockets->silent() == 0);
}

TEST_CASE("session sockets: stays ready until all waits for a key have ended") {
  constexpr std::size_t kWaits = 5'000;  // more than one turn can complete
  Store store;
  const UniqueFd waiter = store.connect();
  std::string waits = from_hex("00CEF7853C");
  for (std::size_t i = 0; i < kWaits; ++i) {
    waits += from_hex("06 01000000 00000000 01000000 00000000 6B");
  }
  say(waiter, waits);
  store.settle();
  say(store.connect(), kSetKey);
  store.settle();
  std::size_t ended = 0;
  for (std::string bytes = hear(waiter); !bytes.empty(); bytes = hear(waiter)) {
    ended += bytes.size();
  }
  CHECK(ended == kWaits);
}
