// SPDX-License-Identifier: Apache-2.0
// The invariants hold in a store that contains a bit of everything, and each of them detects a
// planted error.
#include "rendezvous/server/server_core.hpp"
#include "store_fixture.hpp"
#include "support/catch.hpp"

#include <memory>
#include <utility>

namespace muster {

// Plants states that no request can cause.
struct StateForTests {
  static std::uint64_t& key_count(StoreCore& core) { return core.key_count_; }

  static std::uint64_t& stored(StoreCore& core) { return core.stored_; }

  static KeyMap& keys(StoreCore& core) { return core.keys_; }

  static auto& watched(StoreCore& core) { return core.watched_; }

  static std::uint64_t& wait_bytes(StoreCore& core) { return core.waits_.bytes_; }

  static auto& waits(StoreCore& core) { return core.waits_.waits_; }

  static auto& by_session(StoreCore& core) { return core.waits_.by_session_; }

  static StoreCore& store(ServerCore& core) { return core.store_; }

  static auto& sessions(ServerCore& core) { return core.sessions_; }

  static std::vector<SessionId>& free(ServerCore& core) { return core.free_; }

  static std::vector<SessionId>& touched(ServerCore& core) { return core.touched_; }

  static std::vector<Push>& pushes(ServerCore& core) { return core.pushes_; }

  static std::uint64_t& held(ServerCore& core) { return core.held_; }
};

namespace {

using State = StateForTests;
using testing::StoreFixture;

// A value, a counter, a queue, a client that waits for two keys, and one that watches.
std::unique_ptr<StoreFixture> filled_store() {
  auto store = std::make_unique<StoreFixture>();
  store->set("/value", "text");
  store->add("/count", 3);
  store->ask_strings(Opcode::queue_push, {"/queue", "item"});
  store->session = 2;
  store->ask_keys(Opcode::wait, {"/a", "/b"});
  store->session = 3;
  Request watch;  // only in the older dialect
  watch.opcode = Opcode::watch_key;
  watch.key = "/value";
  store->handle(watch);
  return store;
}

// The violation found after `plant` has been applied to such a store.
template <class Plant>
std::string broken_by(const Plant& plant) {
  const auto store = filled_store();
  REQUIRE(store->core.check_invariants().empty());
  plant(store->core);
  return store->core.check_invariants();
}

bool has(const std::string& text, std::string_view part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

std::string greeting() {
  return testing::from_hex("00CEF7853C");
}

template <class Plant>
std::string server_broken_by(const Plant& plant) {
  ServerCore core;
  const SessionId first = core.open();
  const SessionId second = core.open();
  core.receive(first, greeting() + testing::from_hex("06 0100000000000000 0200000000000000 '/a'"));
  core.receive(second, greeting() + testing::from_hex("03 02"));
  core.forget(core.open());
  REQUIRE(core.check_invariants().empty());
  plant(core);
  std::string broken = core.check_invariants();
  return broken;
}

}  // namespace

TEST_CASE("store invariants: wrong sums are detected") {
  CHECK(broken_by([](auto& core) { ++State::key_count(core); }) ==
        "keys with a value: counter is 3, actual count is 2");
  CHECK(has(broken_by([](auto& core) { --State::stored(core); }), "stored bytes: "));
  CHECK(has(broken_by([](auto& core) { ++State::wait_bytes(core); }), "bytes of waits: "));
}

TEST_CASE("store invariants: entries that must not exist are detected") {
  CHECK(broken_by([](auto& core) {
          static_cast<void>(State::keys(core).find_or_insert("/none"));
        }) == "key /none: is empty but kept");
  CHECK(broken_by([](auto& core) { State::keys(core).find("/a")->second.value = "text"; }) ==
        "key /a: has a value but does not exist");
  CHECK(broken_by([](auto& core) {
          State::keys(core).find("/count")->second.extras = std::make_unique<Extras>();
        }) == "key /count: has extras without queue, waiters or watchers");
}

TEST_CASE("store invariants: waiters and keys that do not match are detected") {
  const auto waiters = [](StoreCore& core, const char* key) -> std::multiset<WaitId>& {
    return State::keys(core).find(key)->second.make_extras().waiters;
  };
  CHECK(broken_by([&](auto& core) { waiters(core, "/queue").insert(1); }) ==
        "key /queue: has a waiter that does not wait for it");
  CHECK(broken_by([&](auto& core) { waiters(core, "/a").insert(99); }) ==
        "key /a: has a waiter that does not wait for it");
  CHECK(broken_by([](auto& core) { ++State::by_session(core).begin()->second.awaited; }) ==
        "awaited keys of a session: counter is 3, actual count is 2");
  CHECK(broken_by([](auto& core) { --State::waits(core).begin()->second.missing; }) ==
        "missing keys of a wait: counter is 1, actual count is 2");
  CHECK(broken_by([](auto& core) { State::by_session(core).begin()->second.waits.clear(); }) ==
        "a wait is not listed for its session");
  CHECK(broken_by([](auto& core) { State::by_session(core).clear(); }) ==
        "cancelled waits: counter is 0, actual count is 1");
  CHECK(broken_by([](auto& core) { State::by_session(core)[7].waits.insert(99); }) ==
        "waits of all sessions: counter is 2, actual count is 1");
}

TEST_CASE("store invariants: unregistered watchers are detected") {
  const std::string differ = "key /value: its watchers and the sessions' watched keys differ";
  CHECK(broken_by([](auto& core) {
          State::keys(core).find("/value")->second.extras->watchers.push_back(9);
        }) == differ);
  CHECK(broken_by([](auto& core) {
          State::watched(core).begin()->second.push_back("/value");
          State::stored(core) += std::string("/value").size() + kItemCost;
        }) == differ);
}

TEST_CASE("server invariants: each planted error is detected") {
  CHECK(has(server_broken_by([](auto& core) { ++State::held(core); }), "held bytes: "));
  CHECK(server_broken_by([](auto& core) { State::sessions(core)[1].input += "x"; }) ==
        "session 1: counted bytes do not match its buffers");
  CHECK(server_broken_by([](auto& core) { State::sessions(core)[1].sent = 1; }) ==
        "session 1: sent more bytes than it had");
  CHECK(server_broken_by([](auto& core) { State::sessions(core)[1].closing = "why"; }) ==
        "session 1: is closing but keeps requests");
  CHECK(server_broken_by([](auto& core) { State::sessions(core)[2].closing = "why"; }) ==
        "session 2: has closed but keeps data");
  CHECK(server_broken_by([](auto& core) { State::free(core).push_back(0); }) ==
        "session 0: open flag and free list are inconsistent");
  CHECK(server_broken_by([](auto& core) { State::free(core).clear(); }) ==
        "session 2: open flag and free list are inconsistent");
  CHECK(server_broken_by([](auto& core) { State::touched(core).push_back(0); }) ==
        "session 0: touched flag and touched list are inconsistent");
  CHECK(server_broken_by([](auto& core) { State::pushes(core).push_back({}); }) ==
        "bytes for a session were not delivered");
  CHECK(server_broken_by([](auto& core) {
          State::sessions(core)[0].open = false;
          State::free(core).push_back(0);
        }) == "session 0: has closed but still waits or watches");
  CHECK(has(server_broken_by([](auto& core) { ++State::key_count(State::store(core)); }),
            "keys with a value: "));
}

}  // namespace muster
