// SPDX-License-Identifier: Apache-2.0
// Waits, barriers, queues and watches: the requests in store_core_waiting.cpp.
#include "store_fixture.hpp"

using namespace muster;
using testing::byte;
using testing::StoreFixture;
using Sessions = std::vector<SessionId>;

TEST_CASE("store core: answers a wait at once if all keys exist") {
  StoreFixture store;
  CHECK(store.ask_keys(Opcode::wait, {}) == byte(0));
  store.set("/k", "");
  CHECK(store.ask_keys(Opcode::wait, {"/k", "/k"}) == byte(0));
}

TEST_CASE("store core: every request that creates a key ends the waits for it") {
  StoreFixture store;
  int number = 0;
  const auto wakes = [&](Opcode opcode, std::vector<std::string> strings) {
    strings.front() = "/k" + std::to_string(++number);
    store.session = 7;
    CHECK(store.ask_keys(Opcode::wait, {strings.front()}).empty());
    store.session = 1;
    store.ask_strings(opcode, strings);
    return store.woken() == Sessions{7};
  };
  CHECK(wakes(Opcode::set, {"", "v"}));
  CHECK(wakes(Opcode::append, {"", "v"}));
  CHECK(wakes(Opcode::compare_set, {"", "", "v"}));
  CHECK_FALSE(wakes(Opcode::compare_set, {"", "other", "v"}));
  CHECK(wakes(Opcode::queue_push, {"", "v"}));
  CHECK_FALSE(wakes(Opcode::delete_key, {""}));
  CHECK_FALSE(wakes(Opcode::get, {""}));

  store.session = 7;
  store.ask_keys(Opcode::wait, {"/sum"});
  store.session = 1;
  CHECK(store.add("/sum", 0) == 0);
  CHECK(store.woken() == Sessions{7});

  store.session = 7;
  store.ask_keys(Opcode::wait, {"/x", "/y"});
  store.session = 1;
  std::string request;
  RequestWriter(request, Opcode::multi_set)
      .number(2)
      .string("/x")
      .string("")
      .string("/y")
      .string("");
  store.ask(request);
  CHECK(store.woken() == Sessions{7});
}

TEST_CASE("store core: does not wake a cancelled wait, and always answers a cancellation") {
  StoreFixture store;
  CHECK(store.ask_strings(Opcode::cancel_wait, {}) == byte(1));
  store.ask_keys(Opcode::wait, {"/k"});
  CHECK(store.ask_strings(Opcode::cancel_wait, {}) == byte(1));
  CHECK(store.core.stored_bytes() == 0);
  store.set("/k", "");
  CHECK(store.pushes.empty());
}

TEST_CASE("store core: a session that ends is forgotten with all its waits") {
  StoreFixture store;
  store.session = 5;
  store.ask_keys(Opcode::wait, {"/k", "/l"});
  store.ask_number(Opcode::barrier, "/b", 2);
  Request watch{.opcode = Opcode::watch_key, .key = "/w"};
  store.handle(watch);
  store.core.forget(5);
  store.session = 1;
  for (const char* key : {"/k", "/l", "/b", "/w"}) {
    store.set(key, "");
    CHECK(store.pushes.empty());
    CHECK(store.number(Opcode::delete_key, key) == 1);
  }
  CHECK(store.core.stored_bytes() == 0);
}

TEST_CASE("store core: the last arrival opens a barrier") {
  StoreFixture store;
  store.session = 1;
  CHECK(store.ask_number(Opcode::barrier, "/b", 3).empty());
  store.session = 2;
  CHECK(store.ask_number(Opcode::barrier, "/b", 3).empty());
  CHECK(store.pushes.empty());
  store.session = 3;
  CHECK(store.ask_number(Opcode::barrier, "/b", 3) == byte(0));
  CHECK(store.woken() == Sessions{1, 2});
  CHECK(store.get("/b") == "3");
  CHECK(store.ask_number(Opcode::barrier, "/b", 3) == byte(0));
}

TEST_CASE(
    "store core: a barrier of size zero is open, and a value that is not a counter is refused") {
  StoreFixture store;
  CHECK(store.ask_number(Opcode::barrier, "/z", 0) == byte(0));
  CHECK(store.ask_number(Opcode::barrier, "/n", -5) == byte(0));
  for (const char* value : {"", "abc", "9223372036854775807"}) {
    store.set("/t", value);
    CHECK(store.ask_number(Opcode::barrier, "/t", 2).empty());
    CHECK(store.refusal == "BARRIER on a value that is not a counter: /t");
  }
}

TEST_CASE("store core: setting a barrier's key wakes its waiters") {
  StoreFixture store;
  store.ask_number(Opcode::barrier, "/b", 3);
  store.session = 2;
  store.set("/b", "0");
  CHECK(store.woken() == Sessions{1});
}

TEST_CASE("store core: cancelling a wait at a barrier does not undo the arrival") {
  StoreFixture store;
  store.ask_number(Opcode::barrier, "/b", 2);
  store.ask_strings(Opcode::cancel_wait, {});
  CHECK(store.get("/b") == "1");
  CHECK(store.ask_number(Opcode::barrier, "/b", 2) == byte(0));
}

TEST_CASE("store core: a queue returns its elements in order and is not a key") {
  StoreFixture store;
  CHECK(store.number(Opcode::queue_len, "/q") == 0);
  CHECK(store.ask_strings(Opcode::queue_pop, {"/q"}) == testing::from_hex("0000000000000000"));
  for (const char* value : {"one", "two", ""}) {
    CHECK(store.ask_strings(Opcode::queue_push, {"/q", value}).empty());
  }
  CHECK(store.number(Opcode::queue_len, "/q") == 3);
  CHECK(store.core.key_count() == 0);
  CHECK(store.get("/q").empty());
  CHECK(store.ask_strings(Opcode::queue_pop, {"/q"}) ==
        testing::from_hex("0300000000000000 0300000000000000 'one'"));
  CHECK(store.ask_strings(Opcode::queue_pop, {"/q"}) ==
        testing::from_hex("0200000000000000 0300000000000000 'two'"));
  CHECK(store.ask_strings(Opcode::queue_pop, {"/q"}) ==
        testing::from_hex("0100000000000000 0000000000000000"));
  CHECK(store.number(Opcode::queue_len, "/q") == 0);
  CHECK(store.core.stored_bytes() == 0);
}

TEST_CASE("store core: one queued element wakes one waiter") {
  StoreFixture store;
  for (const SessionId id : {4U, 5U}) {
    store.session = id;
    store.ask_keys(Opcode::wait, {"/q"});
  }
  store.ask_strings(Opcode::queue_push, {"/q", "e"});
  CHECK(store.woken() == Sessions{4});
  store.ask_strings(Opcode::queue_push, {"/q", "f"});
  CHECK(store.woken() == Sessions{5});
}

TEST_CASE("store core: a queue and a value of the same name are independent") {
  StoreFixture store;
  store.ask_strings(Opcode::queue_push, {"/k", "element"});
  store.set("/k", "value");
  CHECK(store.number(Opcode::delete_key, "/k") == 1);
  CHECK(store.number(Opcode::queue_len, "/k") == 1);
}

TEST_CASE("store core: limits the number of keys for which a session waits") {
  ServerLimits limits;
  limits.awaited_keys = 3;
  StoreFixture store(limits);
  store.ask_keys(Opcode::wait, {"/a", "/b"});
  CHECK(store.refusal.empty());
  store.ask_keys(Opcode::wait, {"/c", "/d"});
  CHECK(store.refusal == "a session waits for 4 keys; the limit is 3");
  store.session = 2;
  store.ask_keys(Opcode::wait, {"/a", "/b", "/c"});
  CHECK(store.refusal.empty());
}

TEST_CASE("store core: a watcher of the older dialect receives every change") {
  StoreFixture store;
  Request watch{.opcode = Opcode::watch_key, .key = "/w"};
  CHECK(store.handle(watch) == byte(3));
  store.session = 2;
  const std::string key = testing::from_hex("0200000000000000 '/w'");
  store.set("/w", "a");
  CHECK(store.pushes.at(0).bytes ==
        byte(1) + key + testing::from_hex("0000000000000000 0100000000000000 'a'"));
  store.set("/w", "bc");
  CHECK(store.pushes.at(0).bytes ==
        byte(0) + key + testing::from_hex("0100000000000000 'a' 0200000000000000 'bc'"));
  store.number(Opcode::delete_key, "/w");
  CHECK(store.pushes.at(0).bytes ==
        byte(2) + key + testing::from_hex("0200000000000000 'bc' 0000000000000000"));
  CHECK(store.woken() == Sessions{1});
}

TEST_CASE("store core: a session has a bounded number of watches") {
  ServerLimits limits;
  limits.watches = 2;
  StoreFixture store(limits);
  const auto watch = [&store](const char* key) {
    return store.handle({.opcode = Opcode::watch_key, .key = key});
  };
  CHECK(watch("/w") == byte(3));
  CHECK(watch("/w") == byte(3));
  CHECK(watch("/x").empty());
  CHECK(store.refusal == "a session watches 3 keys; the limit is 2");
  store.session = 2;
  CHECK(watch("/w") == byte(3));
  store.core.forget(1);
  store.core.forget(2);
  CHECK(store.core.entry_count() == 0);
}
