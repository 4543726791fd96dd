// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/wait_book.hpp"

#include "support/catch.hpp"

#include <chrono>
#include <cstdint>

using namespace muster;

namespace {

struct Fixture {
  KeyMap map;
  WaitBook book;
  TurnBudget budget{1'000'000'000};
  std::vector<Push> pushes;

  Entry& entry(std::string_view key) { return map.find(key)->second; }

  void wait(SessionId session, const std::vector<std::string>& keys) {
    const WaitId id = book.open(session);
    for (const std::string& key : keys) {
      book.add_key(id, map.find_or_insert(key).node);
    }
    CHECK_FALSE(book.seal(id, budget));
  }

  // The keys from which cancelled waits are removed.
  std::vector<std::string> cancel(SessionId session) {
    book.cancel(session);
    std::vector<std::string> keys;
    while (auto key = book.clean_next(map)) {
      keys.push_back(std::move(*key));
    }
    return keys;
  }

  std::vector<SessionId> wake(const std::string& key) {
    pushes.clear();
    book.wake_all(entry(key).make_extras(), budget, pushes);
    std::vector<SessionId> out;
    for (const Push& push : pushes) {
      CHECK(push.bytes == std::string(1, '\0'));
      out.push_back(push.session);
    }
    return out;
  }
};

using Sessions = std::vector<SessionId>;

}  // namespace

TEST_CASE("wait book: a wait ends when its last key arrives") {
  Fixture f;
  f.wait(1, {"a", "b"});
  f.wait(2, {"b"});
  CHECK(f.wake("b") == Sessions{2});
  CHECK(f.wake("a") == Sessions{1});
  CHECK(f.book.bytes() == 0);
  CHECK(f.wake("a").empty());
}

TEST_CASE("wait book: a key that is listed twice counts twice") {
  Fixture f;
  f.wait(1, {"a", "a"});
  CHECK(f.wake("a") == Sessions{1});
}

TEST_CASE("wait book: wakes waiters in the order of their arrival") {
  Fixture f;
  f.wait(3, {"a"});
  f.wait(1, {"a"});
  f.wait(2, {"a"});
  CHECK(f.wake("a") == Sessions{3, 1, 2});
}

TEST_CASE("wait book: an element wakes only the first waiter") {
  Fixture f;
  f.wait(3, {"q"});
  f.wait(1, {"q"});
  f.book.wake_first(f.entry("q").make_extras(), f.budget, f.pushes);
  CHECK(f.pushes == std::vector<Push>{{3, std::string(1, '\0')}});
  CHECK(f.wake("q") == Sessions{1});
}

TEST_CASE("wait book: cancelling removes all waits of one session and of no other") {
  Fixture f;
  f.wait(1, {"a"});
  f.wait(1, {"a", "b"});
  f.wait(2, {"a"});
  CHECK(f.book.awaited(1) == 3);
  CHECK(f.cancel(1) == std::vector<std::string>{"a", "b", "a"});
  CHECK(f.book.awaited(1) == 0);
  CHECK(f.entry("b").extras->empty());
  CHECK(f.wake("a") == Sessions{2});
  CHECK(f.book.bytes() == 0);
}

TEST_CASE("wait book: a cancelled wait whose first key has arrived leaves nothing behind") {
  Fixture f;
  f.wait(1, {"a", "b"});
  CHECK(f.wake("a").empty());
  f.map.erase(*f.map.find("a"));
  CHECK(f.cancel(1).size() == 2);
  CHECK(f.wake("b").empty());
}

// If the cost were quadratic in the number of waits, this would take minutes.
TEST_CASE("wait book: the cost of a wait does not grow with the number of waits") {
  constexpr std::uint64_t kWaits = 131'072;  // ServerLimits::awaited_keys
  constexpr auto kEnough = std::chrono::seconds(20);
  Fixture f;
  const auto start = std::chrono::steady_clock::now();
  const auto in_time = [&] { return std::chrono::steady_clock::now() - start < kEnough; };
  for (std::uint64_t i = 0; i < kWaits && in_time(); ++i) {
    f.wait(1, {"a"});
    REQUIRE(f.book.awaited(1) == i + 1);
  }
  SECTION("they are cancelled") {
    CHECK(f.cancel(1).size() == kWaits);
  }
  SECTION("each element ends the first one") {
    for (std::uint64_t i = 0; i < kWaits && in_time(); ++i) {
      f.book.wake_first(f.entry("a").make_extras(), f.budget, f.pushes);
    }
    CHECK(f.pushes.size() == kWaits);
  }
  SECTION("the key arrives") {
    CHECK(f.wake("a").size() == kWaits);
  }
  CHECK(in_time());
  CHECK(f.book.bytes() == 0);
  CHECK(f.book.awaited(1) == 0);
}
