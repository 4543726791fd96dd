// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/link_sockets.hpp"

#include "base/clock.hpp"
#include "rendezvous/server/listener.hpp"
#include "round_samples.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <functional>
#include <ranges>
#include <sstream>

#include <poll.h>
#include <sys/socket.h>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

// LinkSockets with a listener and what happened to it, driven by hand.
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

  void connect(LinkId id, std::uint16_t to, Duration patience = 5s) {
    sockets->connect(id, {*SocketAddress::parse("127.0.0.1", to)}, patience);
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

bool until(std::initializer_list<Party*> parties, const std::function<bool()>& condition) {
  const TimePoint deadline = steady_now() + 20s;
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

// A plain socket that is connected to the party.
UniqueFd plain(const Party& party) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto there = SocketAddress::parse("127.0.0.1", party.port);
  REQUIRE(::connect(fd.get(), there->get(), there->size) == 0);
  return fd;
}

void write(const UniqueFd& fd, std::string_view bytes) {
  // The other side may have closed already: what it does then is what the test looks at.
  static_cast<void>(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

// What can be read without waiting; `closed` if that is all that ever comes.
std::string read_some(const UniqueFd& fd, bool& closed) {
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

bool is_closed(const UniqueFd& fd) {
  bool closed = false;
  static_cast<void>(read_some(fd, closed));
  return closed;
}

std::string hello_bytes() {
  std::string out(round_preamble());
  REQUIRE(append_frame(out, followers_samples().front()));
  return out;
}

// A port where the kernel answers nobody any more, as a lost host would: its queue is full.
struct Deaf {
  Deaf() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto any = SocketAddress::parse("127.0.0.1", 0);
    REQUIRE(::bind(listener.get(), any->get(), any->size) == 0);
    REQUIRE(::listen(listener.get(), 0) == 0);
    port = port_of(listener.get());
    for (int i = 0; i < 4; ++i) {
      queue.push_back(dial(*SocketAddress::parse("127.0.0.1", port), std::nullopt));
    }
  }

  UniqueFd listener;
  std::uint16_t port = 0;
  std::vector<Dialled> queue;
};

std::size_t resident_kb() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.starts_with("VmRSS:")) {
      return std::stoul(line.substr(6));
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("links: every message arrives, in order, in both directions") {
  Party left;
  Party right;
  left.connect(1, right.port);
  REQUIRE(until({&left, &right}, [&] { return left.all<LinkOpened>().size() == 1; }));
  left.sockets->trust(1);
  for (const RoundMessage& sample : all_samples()) {
    left.say(1, sample);
  }
  const auto count = all_samples().size();
  REQUIRE(until({&left, &right}, [&] { return right.all<MessageReceived>().size() == count; }));
  const auto accepted = right.all<LinkAccepted>();
  REQUIRE(accepted.size() == 1);
  CHECK(accepted[0].link == 2);
  CHECK(accepted[0].from == "127.0.0.1");
  for (std::size_t i = 0; i < count; ++i) {
    CHECK(same(*right.all<MessageReceived>()[i].message, all_samples()[i]));
  }
  for (const RoundMessage& sample : all_samples()) {
    right.say(2, sample);
  }
  right.sockets->close(2);
  REQUIRE(until({&left, &right}, [&] { return !left.all<LinkClosed>().empty(); }));
  CHECK(left.all<MessageReceived>().size() == count);
  CHECK(left.all<LinkClosed>()[0].how == LinkEnd::closed);
  CHECK(until({&left, &right}, [&] { return right.sockets->drained(); }));
  CHECK(right.all<LinkClosed>().empty());
}

TEST_CASE("links: nobody listens, nobody answers, and who ends without a word") {
  Party party;
  std::uint16_t dead = 0;
  {
    const auto gone = listen_on("127.0.0.1", 0);
    dead = port_of(gone->get());
  }
  party.connect(1, dead);
  // As the guard of a dead agent holds it: connections are made, and end when it goes.
  auto held = listen_on("127.0.0.1", 0);
  party.connect(5, port_of(held->get()));
  const Deaf deaf;
  party.connect(9, deaf.port, 50ms);
  REQUIRE(until({&party}, [&] { return party.all<LinkClosed>().size() == 2; }));
  for (const LinkClosed& closed : party.all<LinkClosed>()) {
    CHECK(closed.how == (closed.link == 1 ? LinkEnd::refused : LinkEnd::unreachable));
  }
  REQUIRE(until({&party}, [&] { return party.all<LinkOpened>().size() == 1; }));
  held->reset();
  REQUIRE(until({&party}, [&] { return party.all<LinkClosed>().size() == 3; }));
  CHECK(party.all<LinkClosed>()[2].link == 5);
  CHECK(party.all<LinkClosed>()[2].how == LinkEnd::closed);
}

TEST_CASE("links: of several addresses the first that answers is taken") {
  Party left;
  Party right;
  std::vector<SocketAddress> addresses{*SocketAddress::parse("127.0.0.9", right.port),
                                       *SocketAddress::parse("127.0.0.1", right.port)};
  left.sockets->connect(1, addresses, 5s);
  REQUIRE(until({&left, &right}, [&] { return !left.all<LinkOpened>().empty(); }));
  addresses.pop_back();
  addresses.push_back(addresses.front());
  left.sockets->connect(5, addresses, 5s);
  REQUIRE(until({&left, &right}, [&] { return !left.all<LinkClosed>().empty(); }));
  CHECK(left.all<LinkClosed>()[0].how == LinkEnd::refused);
}

TEST_CASE("links: a socket that is connected with itself has reached nobody") {
  std::uint16_t port = 0;
  {
    const auto gone = listen_on("127.0.0.1", 0);
    port = port_of(gone->get());
  }
  const auto itself = SocketAddress::parse("127.0.0.1", port);
  const Dialled dialled = dial(*itself, *itself);
  REQUIRE(dialled.error == EINPROGRESS);
  CHECK(outcome_of_dial(dialled.fd.get()) == ECONNREFUSED);
}

TEST_CASE("links: a stranger who says something else, or nothing, is dropped without a word") {
  LinkLimits limits;
  limits.hello = 30ms;
  Party party(limits);
  const UniqueFd wrong = plain(party);
  write(wrong, "GET / HTTP/1.1\r\n\r\n");
  const UniqueFd silent = plain(party);
  const UniqueFd half = plain(party);
  write(half, hello_bytes().substr(0, 20));
  const UniqueFd other_first = plain(party);
  std::string beat(round_preamble());
  REQUIRE(append_frame(beat, Beat{}));
  write(other_first, beat);
  REQUIRE(until({&party}, [&] {
    return is_closed(wrong) && is_closed(silent) && is_closed(half) && is_closed(other_first);
  }));
  CHECK(party.events.empty());
  CHECK(party.sockets->drained());
}

TEST_CASE("links: too many strangers, and the oldest goes") {
  LinkLimits limits;
  limits.strangers = 3;
  Party party(limits);
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 5; ++i) {
    strangers.push_back(plain(party));
  }
  REQUIRE(until({&party}, [&] { return is_closed(strangers[0]) && is_closed(strangers[1]); }));
  CHECK_FALSE(is_closed(strangers[2]));
  write(strangers[2], hello_bytes());
  REQUIRE(until({&party}, [&] { return party.all<MessageReceived>().size() == 1; }));
}

TEST_CASE("links: who breaks the format after the greeting is closed with the reason") {
  Party party;
  const UniqueFd client = plain(party);
  write(client, hello_bytes() + std::string(5, '\xff'));
  REQUIRE(until({&party}, [&] { return party.all<LinkClosed>().size() == 1; }));
  CHECK(party.all<LinkClosed>()[0].how == LinkEnd::broken);
  CHECK(party.all<LinkClosed>()[0].words == "a message of the unknown kind 255");
  CHECK(party.all<MessageReceived>().size() == 1);
}

TEST_CASE("links: another version is told so and then closed") {
  Party party;
  const UniqueFd client = plain(party);
  write(client, std::string("\xA7MUSTER\x09\x00 frames of another time", 31));
  std::string answer;
  bool closed = false;
  REQUIRE(until({&party}, [&] {
    answer += read_some(client, closed);
    return closed;
  }));
  CHECK(answer == refuse_version(9));
  CHECK(party.events.empty());
}

TEST_CASE("links: who does not read is closed, and the others are not disturbed") {
  LinkLimits limits;
  limits.unsent_bytes = 1024UL * 1024;
  Party party(limits);
  const UniqueFd deaf = plain(party);
  write(deaf, hello_bytes());
  REQUIRE(until({&party}, [&] { return party.all<LinkAccepted>().size() == 1; }));
  auto round = std::make_shared<Round>(*sample_round(3, 3));
  round->members.resize(20000, sample_node(0));
  const auto frame = encode_shared(Propose{.round = round, .base = sample_round(0, 0)});
  REQUIRE(frame);
  REQUIRE(until({&party}, [&] {
    party.sockets->send(2, *frame);
    return party.all<LinkClosed>().size() == 1;
  }));
  CHECK(party.all<LinkClosed>()[0].how == LinkEnd::unreachable);
  CHECK_THAT(party.all<LinkClosed>()[0].words, Catch::StartsWith("it does not read"));
}

TEST_CASE("links: a link may be closed in the middle of its own messages") {
  Party party;
  party.on_event = [&](const NodeEvent& event) {
    if (const auto* received = std::get_if<MessageReceived>(&event)) {
      party.sockets->close(received->link);
    }
  };
  const UniqueFd client = plain(party);
  std::string bytes = hello_bytes();
  for (int i = 0; i < 100; ++i) {
    REQUIRE(append_frame(bytes, Beat{}));
  }
  write(client, bytes);
  REQUIRE(until({&party}, [&] { return is_closed(client); }));
  CHECK(party.all<MessageReceived>().size() == 1);
  CHECK(party.all<LinkClosed>().empty());
}

TEST_CASE("links: rubbish on a hundred connections costs no memory") {
  Party party;
  [[maybe_unused]] const std::size_t before = resident_kb();
  const std::string rubbish(100UL * 1024, 'x');
  // A greeting, then the head of a list that never ends.
  std::string greedy = hello_bytes();
  greedy.append(std::string("\xff\xff\x0f\x00\x0a", 5));
  greedy.append(rubbish);
  for (int round = 0; round < 10; ++round) {
    std::vector<UniqueFd> clients;
    for (int i = 0; i < 100; ++i) {
      clients.push_back(plain(party));
      write(clients.back(), i % 2 == 0 ? rubbish : greedy);
    }
    REQUIRE(until({&party}, [&] {
      return std::ranges::all_of(std::views::iota(std::size_t{0}, std::size_t{50}),
                                 [&](std::size_t i) { return is_closed(clients[2 * i]); });
    }));
    clients.clear();
    party.events.clear();
    REQUIRE(until({&party}, [&] { return party.sockets->drained(); }));
  }
  // What a hundred clients left at the same moment, not what a thousand did.
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory to find its use
  CHECK(resident_kb() < before + 20UL * 1024);
#endif
}
