// SPDX-License-Identifier: Apache-2.0
// Large requests, many waits that end at once, and the cleanup after a session are served in
// several turns. Other sessions are served in between.
#include "rendezvous/server/server_core.hpp"
#include "rendezvous/wire/store_encoder.hpp"
#include "support/catch.hpp"
#include "support/hex.hpp"
#include "support/seed.hpp"
#include "unit/rendezvous/server/server_fixture.hpp"
#include "unit/rendezvous/store/store_requests.hpp"

#include <algorithm>

using namespace muster;
using testing::Dice;
using testing::from_hex;
using testing::Seed;
using testing::with_keys;
using testing::with_strings;

namespace {

constexpr std::uint64_t kUnits = 4;
constexpr std::size_t kMany = 30;

ServerLimits small_turns() {
  ServerLimits limits;
  limits.turn_units = kUnits;
  return limits;
}

std::vector<std::string> keys(std::size_t count = kMany) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    out.push_back("/k" + std::to_string(i));
  }
  return out;
}

std::string set_all(const std::vector<std::string>& keys, const std::string& value) {
  std::string out;
  RequestWriter writer(out, Opcode::multi_set);
  writer.number(static_cast<std::int64_t>(keys.size()));
  for (const std::string& key : keys) {
    writer.string(key).string(value);
  }
  return out;
}

std::string ping(std::uint32_t nonce) {
  std::string out;
  RequestWriter(out, Opcode::ping).word(nonce);
  return out;
}

std::string list_keys() {
  return with_strings(Opcode::list_keys, {});
}

// The reply to LIST_KEYS.
std::string list_of(std::vector<std::string> names) {
  std::ranges::sort(names);
  std::string out;
  append_int(out, static_cast<std::int64_t>(names.size()));
  for (const std::string& name : names) {
    append_bytes(out, name);
  }
  return out;
}

const std::string kPong = from_hex("07000000");

struct Fixture : testing::ServerFixture {
  explicit Fixture(const ServerLimits& limits = small_turns()) : ServerFixture(limits) {}

  // Returns the number of turns.
  std::size_t finish() {
    std::size_t turns = 0;
    for (; core.has_work(); ++turns) {
      REQUIRE(turns < 100 * kMany);
      core.advance();
      REQUIRE(core.check_invariants() == "");
    }
    return turns;
  }

  // Each wait is a separate request.
  SessionId waiting(const std::string& key, std::size_t count = kMany) {
    const SessionId id = greeted();
    for (std::size_t i = 0; i < count; ++i) {
      core.receive(id, with_keys(Opcode::wait, {key}));
    }
    return id;
  }

  // A session that has set these keys.
  SessionId setter(const std::vector<std::string>& keys) {
    const SessionId id = greeted();
    core.receive(id, set_all(keys, "v"));
    finish();
    return id;
  }

  bool answers(SessionId id) {
    core.receive(id, ping(7));
    return drain(id) == kPong;
  }
};

}  // namespace

TEST_CASE("server turns: one set wakes many waiters in several turns") {
  Fixture f;
  const SessionId waiter = f.waiting("/k");
  const SessionId setter = f.greeted();
  f.core.receive(setter, with_strings(Opcode::set, {"/k", "v"}));
  std::size_t replies = f.drain(waiter).size();
  CHECK(replies <= kUnits);
  while (f.core.has_work()) {
    CHECK(f.answers(setter));
    f.core.advance();
    CHECK(f.core.check_invariants() == "");
    const auto touched = f.core.take_touched();
    const std::size_t more = f.drain(waiter).size();
    CHECK(more <= 2 * kUnits);
    CHECK((touched == std::vector<SessionId>{waiter}) == (more > 0));
    replies += more;
  }
  CHECK(replies == kMany);
  CHECK(f.core.store().stored_bytes() == kEntryCost + 3);
}

TEST_CASE("server turns: registers a large WAIT in several turns") {
  Fixture f;
  const SessionId waiter = f.greeted();
  const SessionId other = f.greeted();
  f.core.receive(waiter, with_keys(Opcode::wait, keys()) + ping(7));
  CHECK_FALSE(f.core.wants_input(waiter));
  CHECK(f.core.store().entry_count() <= kUnits);
  CHECK(f.answers(other));
  // Some of the keys arrive before the whole request is registered.
  f.core.receive(other, set_all({"/k0", "/k29"}, "v"));
  CHECK(f.finish() >= kMany / kUnits);
  CHECK(f.core.wants_input(waiter));
  CHECK(f.drain(waiter) == kPong);
  f.core.receive(other, set_all(keys(), "v"));
  f.finish();
  CHECK(f.drain(waiter) == std::string(1, '\0'));
}

TEST_CASE("server turns: answers a large WAIT in order even if all its keys arrive meanwhile") {
  Fixture f;
  const SessionId waiter = f.greeted();
  const SessionId other = f.greeted();
  f.core.receive(waiter, with_keys(Opcode::wait, keys()) + ping(7));
  for (const std::string& key : keys()) {
    f.core.receive(other, with_strings(Opcode::set, {key, "v"}));
  }
  f.finish();
  CHECK(f.drain(waiter) == std::string(1, '\0') + kPong);
}

TEST_CASE("server turns: cleans up after a session in several turns") {
  Fixture f;
  const SessionId waiter = f.greeted();
  const SessionId other = f.greeted();
  f.core.receive(waiter, with_keys(Opcode::wait, keys()));
  f.finish();
  f.core.forget(waiter);
  CHECK(f.core.store().entry_count() >= kMany - kUnits);
  // The number's next user is not woken by the waits of the previous one.
  REQUIRE(f.greeted() == waiter);
  f.core.receive(
      other, with_strings(Opcode::set, {"/k0", "v"}) + with_strings(Opcode::set, {"/k29", "v"}));
  CHECK(f.answers(other));
  CHECK(f.finish() >= kMany / kUnits / 2);
  CHECK(f.drain(waiter).empty());
  CHECK(f.core.store().entry_count() == 2);
}

TEST_CASE("server turns: a session that closes in between leaves nothing behind") {
  Fixture f;
  const SessionId other = f.greeted();
  const SessionId waiter = f.waiting("/k");
  SECTION("while its waits end") {
    f.core.receive(other, with_strings(Opcode::set, {"/k", "v"}));
    f.core.advance();
    f.core.receive(other, with_strings(Opcode::delete_key, {"/k"}));
  }
  SECTION("while its request is registered") {
    f.core.receive(waiter, with_keys(Opcode::wait, keys()));
    f.core.advance();
    f.core.advance();
  }
  SECTION("while its waits are cancelled") {
    f.core.receive(waiter, with_strings(Opcode::cancel_wait, {}));
    f.core.advance();
  }
  REQUIRE(f.core.has_work());
  f.core.forget(waiter);
  f.finish();
  CHECK(f.core.store().stored_bytes() == 0);
  CHECK(f.core.store().entry_count() == 0);
}

TEST_CASE("server turns: an element skips cancelled waits and wakes the next waiter") {
  Fixture f;
  const SessionId gone = f.waiting("/q");
  const SessionId waiter = f.waiting("/q", 1);
  const SessionId other = f.greeted();
  f.core.forget(gone);
  f.core.receive(other, with_strings(Opcode::queue_push, {"/q", "e"}) + ping(7));
  f.finish();
  CHECK(f.drain(other) == kPong);
  CHECK(f.drain(waiter) == std::string(1, '\0'));
}

TEST_CASE("server turns: a refused part closes the session") {
  ServerLimits limits = small_turns();
  limits.awaited_keys = kMany - 1;
  Fixture f(limits);
  const SessionId id = f.greeted();
  f.core.receive(id, with_keys(Opcode::wait, keys()) + ping(7));
  CHECK(f.core.closing(id).empty());
  f.finish();
  CHECK(f.core.closing(id) == "a session waits for 30 keys; the limit is 29");
  CHECK(f.core.output(id).empty());
  f.core.forget(id);
  f.finish();
  CHECK(f.core.store().stored_bytes() == 0);
}

TEST_CASE("server turns: several large requests take turns") {
  Fixture f;
  const SessionId first = f.greeted();
  const SessionId second = f.greeted();
  f.core.receive(first, set_all(keys(kMany * 10), "v") + ping(7));
  f.core.receive(second, set_all(keys(), "v") + ping(7));
  while (f.core.wants_input(second) == false) {
    f.core.advance();
  }
  CHECK(f.drain(second) == kPong);
  CHECK_FALSE(f.core.wants_input(first));
  f.finish();
  CHECK(f.drain(first) == kPong);
}

TEST_CASE("server turns: many small requests in one read take several turns") {
  Fixture f;
  const SessionId setter = f.greeted();
  const SessionId other = f.greeted();
  std::string sets;
  std::string deletes;
  for (const std::string& key : keys()) {
    sets += with_strings(Opcode::set, {key, "v"});
    deletes += with_strings(Opcode::delete_key, {key});
  }
  f.core.receive(setter, sets + ping(7));
  CHECK(f.core.store().key_count() == kUnits);
  CHECK_FALSE(f.core.wants_input(setter));
  CHECK(f.answers(other));
  CHECK(f.finish() >= kMany / kUnits);
  CHECK(f.drain(setter) == kPong);
  f.core.receive(setter, deletes);
  CHECK(f.core.store().key_count() == kMany - kUnits);
  f.finish();
  CHECK(f.core.store().key_count() == 0);
}

TEST_CASE("server turns: each SET of a key with many watches takes a turn") {
  Fixture f;
  const SessionId watcher = f.core.open();  // in the older dialect
  const std::string key("\x02\0\0\0\0\0\0\0/k", 10);
  for (std::size_t i = 0; i < kMany; ++i) {
    f.core.receive(watcher, "\x07" + key);
  }
  REQUIRE(f.drain(watcher) == std::string(kMany, '\3'));
  const SessionId setter = f.greeted();
  const std::string set = with_strings(Opcode::set, {"/k", "v"});
  f.core.receive(setter, set + set + ping(7));
  const std::size_t notices = f.drain(watcher).size();
  f.core.advance();
  CHECK(f.drain(watcher).size() == notices + kMany);  // the old value has one byte
  f.finish();
  CHECK(f.drain(setter) == kPong);
}

TEST_CASE("server turns: LIST_KEYS takes several turns and returns the keys of one moment") {
  Fixture f;
  const SessionId other = f.setter(keys());
  const SessionId lister = f.greeted();
  f.core.receive(lister, list_keys() + ping(7));
  CHECK_FALSE(f.core.wants_input(lister));
  CHECK(f.answers(other));
  SECTION("while keys are created") {
    f.core.receive(other, set_all({"/a", "/b", "/x", "/y", "/z"}, "v"));
  }
  SECTION("while keys are deleted") {
    for (const std::string& key : keys()) {
      f.core.receive(other, with_strings(Opcode::delete_key, {key}));
    }
  }
  SECTION("while keys are deleted and created again") {
    for (const std::string& key : keys()) {
      f.core.receive(other, with_strings(Opcode::delete_key, {key}));
      f.core.receive(other, with_strings(Opcode::set, {key, "v"}));
      f.core.receive(other, with_strings(Opcode::delete_key, {key}));
    }
  }
  CHECK(f.finish() >= kMany / kUnits);
  CHECK(f.drain(lister) == list_of(keys()) + kPong);
}

TEST_CASE("server turns: one LIST_KEYS waits for another and sees the keys set before it") {
  Fixture f;
  const SessionId other = f.setter(keys());
  const SessionId first = f.greeted();
  const SessionId second = f.greeted();
  f.core.receive(first, list_keys());
  auto names = keys();
  names.emplace_back("/new");
  f.core.receive(other, with_strings(Opcode::set, {"/new", "v"}));
  f.core.receive(second, list_keys() + list_keys() + ping(7));
  SECTION("until the first one has its reply") {
    f.finish();
    CHECK(f.drain(first) == list_of(keys()));
  }
  SECTION("until the first session closes") {
    f.core.forget(first);
    f.finish();
  }
  CHECK(f.drain(second) == list_of(names) + list_of(names) + kPong);
}

TEST_CASE("server turns: a LIST_KEYS that waits for another does not delay it") {
  Fixture f;
  const SessionId first = f.setter(keys());
  f.core.receive(first, list_keys());
  Fixture alone;
  alone.core.receive(alone.setter(keys()), list_keys());
  for (std::size_t i = 0; i < kMany; ++i) {
    f.core.receive(f.greeted(), list_keys());
  }
  for (std::size_t turns = alone.finish(); turns > 0; --turns) {
    f.core.advance();
  }
  CHECK(f.drain(first) == list_of(keys()));
}

TEST_CASE("server turns: a LIST_KEYS with too large a reply closes the session") {
  ServerLimits limits = small_turns();
  limits.reply_bytes = list_of(keys()).size() - sizeof(std::int64_t) - 1;
  Fixture f(limits);
  const SessionId lister = f.setter(keys());
  f.core.receive(lister, list_keys());
  CHECK(f.core.closing(lister).empty());
  f.finish();
  CHECK(f.core.closing(lister).starts_with("LIST_KEYS with a reply of "));
  CHECK(f.core.output(lister).empty());
  // Another session can list then.
  const SessionId other = f.greeted();
  f.core.receive(other, with_strings(Opcode::delete_key, {"/k0"}) + list_keys());
  f.finish();
  CHECK(f.core.closing(other).empty());
}

TEST_CASE("server turns: the reply to an earlier WAIT follows a reply that takes several turns") {
  Fixture f;
  const SessionId other = f.setter(keys());
  const SessionId waiter = f.waiting("/w", 1);
  const bool lists = GENERATE(false, true);
  std::string reply = lists ? list_of(keys()) : "";
  for (std::size_t i = 0; i < kMany && !lists; ++i) {
    append_bytes(reply, "v");
  }
  f.core.receive(waiter, (lists ? list_keys() : with_keys(Opcode::multi_get, keys())) + ping(7));
  while (f.core.output(waiter).empty()) {
    f.core.advance();
  }
  REQUIRE_FALSE(f.core.wants_input(waiter));
  f.core.receive(other, with_strings(Opcode::set, {"/w", "v"}));
  CHECK(f.core.check_invariants() == "");
  SECTION("that is sent") {
    f.finish();
    CHECK(f.drain(waiter) == reply + std::string(1, '\0') + kPong);
    CHECK(f.core.held_bytes() == 0);
  }
  SECTION("that is not sent, because the session closes") {
    f.core.forget(waiter);
    f.finish();
    REQUIRE(f.greeted() == waiter);
    CHECK(f.answers(waiter));
    CHECK(f.core.held_bytes() == 0);
  }
}

TEST_CASE("server turns: the replies to a session do not depend on the size of a turn") {
  const Seed seed;
  INFO(seed.describe());
  Dice dice(seed.value());
  for (int run = 0; run < 50; ++run) {
    std::string requests;
    for (int i = 0; i < 40; ++i) {
      const auto some = keys(dice.below(20));
      requests += dice.below(3) == 0   ? set_all(some, dice.bytes(dice.below(3000)))
                  : dice.below(2) == 0 ? with_keys(Opcode::multi_get, some)
                  : dice.below(2) == 0 ? with_keys(Opcode::check, some)
                  : dice.below(2) == 0 ? list_keys()
                                       : with_strings(Opcode::delete_key, {"/k3"});
    }
    Fixture whole{ServerLimits{}};
    Fixture parts;
    const SessionId id = whole.greeted();
    REQUIRE(parts.greeted() == id);
    whole.core.receive(id, requests);
    whole.finish();
    parts.core.receive(id, requests);
    parts.finish();
    std::string replies;
    do {
      replies += parts.drain(id);
    } while (parts.finish() > 0);
    REQUIRE(replies + parts.drain(id) == whole.drain(id));
    REQUIRE(parts.core.held_bytes() == 0);
  }
}
