// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/server/server_core.hpp"

#include "rendezvous/wire/store_encoder.hpp"
#include "support/catch.hpp"
#include "support/hex.hpp"
#include "support/seed.hpp"
#include "unit/rendezvous/server/server_fixture.hpp"

using namespace muster;
using testing::Dice;
using testing::from_hex;
using testing::kGreeting;
using testing::Seed;

namespace {

std::string set(const std::string& key, const std::string& value) {
  std::string out;
  RequestWriter(out, Opcode::set).string(key).string(value);
  return out;
}

std::string get(const std::string& key) {
  std::string out;
  RequestWriter(out, Opcode::get).string(key);
  return out;
}

std::string wait_for(const std::string& key) {
  std::string out;
  RequestWriter(out, Opcode::wait).keys({key});
  return out;
}

using Fixture = testing::ServerFixture;

}  // namespace

TEST_CASE("server core: answers pipelined requests in order, in one piece") {
  Fixture f;
  const SessionId id = f.core.open();
  std::string all;
  append_greeting(all, 9);
  all += set("/k", "v") + get("/k") + get("/missing");
  f.core.receive(id, all);
  CHECK(f.drain(id) == from_hex("09000000 0100000000000000 'v' 0000000000000000"));
  CHECK(f.core.wants_input(id));
  CHECK(f.core.closing(id).empty());
}

TEST_CASE("server core: any split of the bytes gives the same answers") {
  const Seed seed;
  INFO(seed.describe());
  Dice dice(seed.value());
  std::string all;
  append_greeting(all, 9);
  for (int i = 0; i < 50; ++i) {
    all += set("/k" + std::to_string(i % 7), dice.bytes(dice.below(300)));
    all += get("/k" + std::to_string(dice.below(9)));
  }
  Fixture whole;
  const SessionId first = whole.core.open();
  whole.core.receive(first, all);
  const std::string expected = whole.drain(first);
  for (int run = 0; run < 100; ++run) {
    Fixture f;
    const SessionId id = f.core.open();
    std::string replies;
    for (std::string_view left = all; !left.empty();) {
      const std::size_t size = std::min<std::size_t>(left.size(), 1 + dice.below(200));
      f.core.receive(id, left.substr(0, size));
      left.remove_prefix(size);
      replies += f.drain(id);
    }
    REQUIRE(replies == expected);
    REQUIRE(f.core.held_bytes() == 0);
  }
}

TEST_CASE("server core: sessions of both dialects share the keys") {
  Fixture f;
  const SessionId current = f.greeted();
  const SessionId older = f.core.open();
  f.core.receive(older, from_hex("00 0200000000000000 '/k' 0100000000000000 'v'"));
  f.core.receive(current, get("/k"));
  CHECK(f.drain(current) == from_hex("0100000000000000 'v'"));
  f.core.receive(older, from_hex("02 0200000000000000 '/k'"));
  CHECK(f.drain(older) == from_hex("0100000000000000 'v'"));
}

TEST_CASE("server core: a session that is woken by another is listed once") {
  Fixture f;
  const SessionId waiter = f.greeted();
  const SessionId setter = f.greeted();
  f.core.receive(waiter, wait_for("/a") + wait_for("/b"));
  CHECK(f.drain(waiter).empty());
  f.core.receive(setter, set("/a", "") + set("/b", ""));
  CHECK(f.core.take_touched() == std::vector<SessionId>{waiter});
  CHECK(f.core.take_touched().empty());
  CHECK(f.drain(waiter) == std::string(2, '\0'));
}

TEST_CASE("server core: serves other requests of a waiting session meanwhile") {
  Fixture f;
  const SessionId id = f.greeted();
  f.core.receive(id, wait_for("/never") + set("/k", "v") + get("/k"));
  CHECK(f.drain(id) == from_hex("0100000000000000 'v'"));
  f.core.receive(id, from_hex("0C"));
  CHECK(f.drain(id) == std::string(1, '\1'));
}

TEST_CASE("server core: an invalid request closes only its session, after earlier replies") {
  Fixture f;
  const SessionId good = f.greeted();
  const SessionId bad = f.greeted();
  f.core.receive(bad, get("/k") + "\x63" + get("/k"));
  CHECK(f.core.closing(bad) == "unknown request number 99 ('c')");
  CHECK_FALSE(f.core.wants_input(bad));
  CHECK(f.drain(bad) == std::string(8, '\0'));
  f.core.receive(bad, get("/k"));
  CHECK(f.drain(bad).empty());
  f.core.forget(bad);
  f.core.receive(good, get("/k"));
  CHECK(f.drain(good) == std::string(8, '\0'));
}

TEST_CASE("server core: a reused session number has no state of its last user") {
  Fixture f;
  const SessionId first = f.greeted();
  f.core.receive(first, wait_for("/k") + get("/half").substr(0, 5));
  f.core.forget(first);
  CHECK(f.core.held_bytes() == 0);
  CHECK(f.greeted() == first);
  const SessionId setter = f.greeted();
  f.core.receive(setter, set("/k", ""));
  CHECK(f.core.take_touched().empty());
  f.core.receive(first, get("/k"));
  CHECK(f.drain(first) == std::string(8, '\0'));
}

TEST_CASE("server core: does not serve a session above the high-water mark") {
  ServerLimits limits;
  limits.unsent_high_water = 1'000;
  Fixture f(limits);
  const SessionId id = f.greeted();
  std::string requests = set("/k", std::string(300, 'v'));
  for (int i = 0; i < 100; ++i) {
    requests += get("/k");
  }
  f.core.receive(id, requests);
  CHECK(f.core.output(id).size() == 4UL * 308);
  CHECK_FALSE(f.core.wants_input(id));
  // Each byte that is read makes room, and finally all requests have been answered in order.
  std::string replies;
  while (!f.core.output(id).empty()) {
    REQUIRE(f.core.output(id).size() <= 1'308);
    const std::size_t size = std::min<std::size_t>(f.core.output(id).size(), 97);
    replies += f.core.output(id).substr(0, size);
    f.core.sent(id, size);
  }
  CHECK(replies.size() == 100UL * 308);
  CHECK(f.core.wants_input(id));
  CHECK(f.core.held_bytes() == 0);
}

TEST_CASE("server core: above the memory limit it closes the session that uses most") {
  ServerLimits limits;
  limits.held_bytes = 100'000;
  Fixture f(limits);
  const SessionId small = f.greeted();
  const SessionId large = f.greeted();
  const SessionId third = f.greeted();
  f.core.receive(small, set("/s", std::string(20'000, 's')).substr(0, 10'000));
  f.core.receive(large, set("/l", std::string(90'000, 'l')).substr(0, 80'000));
  CHECK(f.core.closing(large).empty());
  f.core.receive(third, set("/t", std::string(20'000, 't')).substr(0, 15'000));
  CHECK(f.core.take_touched() == std::vector<SessionId>{large});
  CHECK(f.core.closing(large).starts_with("all sessions together hold 105"));
  CHECK(f.core.closing(small).empty());
  CHECK(f.core.closing(third).empty());
  CHECK(f.core.held_bytes() < 26'000);
  f.core.receive(small, set("/s", std::string(20'000, 's')).substr(10'000) + get("/s"));
  CHECK(f.drain(small).size() == 20'008);
}

TEST_CASE("server core: stores a large value that arrives in pieces") {
  Fixture f;
  const SessionId id = f.greeted();
  const std::string value(kMaxValueBytes, 'x');
  const std::string request = set("/big", value);
  for (std::string_view left = request; !left.empty();) {
    const std::size_t size = std::min<std::size_t>(left.size(), 100'000);
    f.core.receive(id, left.substr(0, size));
    left.remove_prefix(size);
  }
  CHECK(f.core.held_bytes() == 0);
  f.core.receive(id, get("/big"));
  CHECK(f.drain(id).substr(8) == value);
}
