// SPDX-License-Identifier: Apache-2.0
#include "io/connect.hpp"
#include "link_party.hpp"

#include <algorithm>
#include <fstream>
#include <ranges>
#include <sstream>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

// A port on which the kernel no longer answers, because its queue is full. This simulates a lost
// host.
struct Deaf {
  Deaf() : listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto any = SocketAddress::parse("127.0.0.1", 0);
    REQUIRE(::bind(listener.get(), any->get(), any->size) == 0);
    REQUIRE(::listen(listener.get(), 0) == 0);
    port = port_of(listener.get());
    for (int i = 0; i < 4; ++i) {
      queue.push_back(start_connect(*SocketAddress::parse("127.0.0.1", port)));
    }
  }

  UniqueFd listener;
  std::uint16_t port = 0;
  std::vector<Connecting> queue;
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

TEST_CASE("links: every message arrives in order, in both directions") {
  Party left;
  Party right;
  left.connect(1, right.port);
  REQUIRE(until({&left, &right}, [&] { return left.all<LinkOpened>().size() == 1; }));
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

TEST_CASE("links: no listener, no answer, and a peer that closes silently") {
  Party party;
  std::uint16_t dead = 0;
  {
    const auto gone = listen_on("127.0.0.1", 0);
    dead = port_of(gone->get());
  }
  party.connect(1, dead);
  // As held by the guard of a dead agent: connections succeed, and end when the guard exits.
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

TEST_CASE("links: uses the first of several addresses that answers") {
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

TEST_CASE("links: silently drops a stranger that sends something else or nothing") {
  LinkLimits limits;
  limits.hello = 30ms;
  Party party(limits);
  const UniqueFd wrong = plain(party);
  write(wrong, "GET / HTTP/1.1\r\n\r\n");
  const UniqueFd silent = plain(party);
  const UniqueFd half = plain(party);
  write(half, hello_bytes().substr(0, 20));
  const UniqueFd other_first = plain(party);
  std::string beat = round_introduction({});
  REQUIRE(append_frame(beat, Beat{}));
  write(other_first, beat);
  REQUIRE(until({&party}, [&] {
    return is_closed(wrong) && is_closed(silent) && is_closed(half) && is_closed(other_first);
  }));
  CHECK(party.events.empty());
  CHECK(party.sockets->drained());
}

TEST_CASE("links: the accepting side sends nothing before the introduction is complete") {
  Party party;
  const UniqueFd client = plain(party);
  const std::string introduction = round_introduction({});
  bool closed = false;
  write(client, introduction.substr(0, introduction.size() - 1));
  party.turn();
  CHECK(read_some(client, closed).empty());
  write(client, introduction.substr(introduction.size() - 1));
  std::string reply;
  REQUIRE(until({&party}, [&] {
    reply += read_some(client, closed);
    return reply.size() >= kPreambleBytes + kReplyBytes;
  }));
  CHECK(reply == round_reply(RoundReply::plain));
  CHECK(party.events.empty());
  write(client, hello_bytes().substr(introduction.size()));
  REQUIRE(until({&party}, [&] { return party.all<MessageReceived>().size() == 1; }));
}

TEST_CASE("links: the connecting side sends only its introduction before it has the reply") {
  Party party;
  const auto listener = listen_on("127.0.0.1", 0);
  party.connect(1, port_of(listener->get()));
  REQUIRE(until({&party}, [&] { return party.all<LinkOpened>().size() == 1; }));
  party.say(1, followers_samples().front());
  party.say(1, Beat{});
  party.turn();
  const UniqueFd accepted(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  std::string heard;
  bool closed = false;
  REQUIRE(until({&party}, [&] {
    heard += read_some(accepted, closed);
    return !heard.empty();
  }));
  CHECK(heard == round_introduction({}));
  const std::string reply = round_reply(RoundReply::plain);
  write(accepted, reply.substr(0, reply.size() - 1));
  party.turn();
  CHECK(read_some(accepted, closed).empty());
  write(accepted, reply.substr(reply.size() - 1));
  std::string expected = hello_bytes();
  REQUIRE(append_frame(expected, Beat{}));
  REQUIRE(until({&party}, [&] {
    heard += read_some(accepted, closed);
    return heard.size() >= expected.size();
  }));
  CHECK(heard == expected);
}

TEST_CASE("links: drops the oldest of too many strangers") {
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

TEST_CASE("links: closes a link that violates the format after the greeting, with the reason") {
  Party party;
  const UniqueFd client = plain(party);
  write(client, hello_bytes() + std::string(5, '\xff'));
  REQUIRE(until({&party}, [&] { return party.all<LinkClosed>().size() == 1; }));
  CHECK(party.all<LinkClosed>()[0].how == LinkEnd::broken);
  CHECK(party.all<LinkClosed>()[0].text == "a message of unknown kind 255");
  CHECK(party.all<MessageReceived>().size() == 1);
}

TEST_CASE("links: tells another version so and then closes") {
  Party party;
  const UniqueFd client = plain(party);
  write(client, std::string("\xA7MUSTER\x63\x00 frames of another time", 31));
  std::string answer;
  bool closed = false;
  REQUIRE(until({&party}, [&] {
    answer += read_some(client, closed);
    return closed;
  }));
  CHECK(answer == refuse_version(99));
  CHECK(party.events.empty());
}

TEST_CASE("links: closes a link whose peer does not read, without disturbing others") {
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
  CHECK_THAT(party.all<LinkClosed>()[0].text, Catch::StartsWith("it is not reading"));
}

TEST_CASE("links: a link may be closed while its own messages are processed") {
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

TEST_CASE("links: garbage on a hundred connections uses no memory") {
  Party party;
  [[maybe_unused]] const std::size_t before = resident_kb();
  const std::string rubbish(100UL * 1024, 'x');
  // A greeting and most of a message that has the maximum length before a welcome.
  std::string greedy = hello_bytes();
  greedy.append(std::string("\x00\x40\x00\x00\x16", 5));
  greedy.append(rubbish.substr(0, kMaxShortBody - 1));
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
  // What a hundred concurrent clients leave behind, not a thousand.
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory to find its use
  CHECK(resident_kb() < before + 20UL * 1024);
#endif
}
