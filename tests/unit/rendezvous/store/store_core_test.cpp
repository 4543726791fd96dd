// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/store_core.hpp"

#include "store_fixture.hpp"

#include <limits>

using namespace muster;
using testing::byte;
using testing::StoreFixture;

TEST_CASE("store core: a value can be read and replaced, and does not exist before") {
  StoreFixture store;
  CHECK(store.ask_strings(Opcode::get, {"/k"}) == testing::from_hex("0000000000000000"));
  store.set("/k", "v");
  CHECK(store.get("/k") == "v");
  store.set("/k", std::string("\0binary\xFF", 8));
  CHECK(store.get("/k") == std::string("\0binary\xFF", 8));
  store.set("/k", "");
  CHECK(store.get("/k").empty());
  CHECK(store.core.key_count() == 1);
}

TEST_CASE("store core: compare and set has five cases") {
  StoreFixture store;
  const auto compare_set = [&](const std::string& expected, const std::string& desired) {
    const std::string reply = store.ask_strings(Opcode::compare_set, {"/k", expected, desired});
    std::string_view items = reply;
    return std::string(take_item(items));
  };
  CHECK(compare_set("x", "new") == "x");
  CHECK(store.core.key_count() == 0);
  CHECK(compare_set("", "one") == "one");
  CHECK(compare_set("", "two") == "one");
  CHECK(compare_set("wrong", "two") == "one");
  CHECK(compare_set("one", "two") == "two");
  CHECK(store.get("/k") == "two");
}

TEST_CASE("store core: a counter is decimal text in the value") {
  StoreFixture store;
  CHECK(store.add("/c", 1) == 1);
  CHECK(store.add("/c", 2) == 3);
  CHECK(store.add("/c", -10) == -7);
  CHECK(store.get("/c") == "-7");
  store.set("/c", " 12x");
  CHECK(store.add("/c", 1) == 13);
  CHECK(store.add("/zero", 0) == 0);
  CHECK(store.get("/zero") == "0");
}

TEST_CASE("store core: a counter wraps at the end of 64 bits") {
  StoreFixture store;
  CHECK(store.add("/c", std::numeric_limits<std::int64_t>::max()) > 0);
  CHECK(store.add("/c", 1) == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("store core: adding to a value that is not a number fails and changes nothing") {
  StoreFixture store;
  for (const char* value : {"", "abc", "99999999999999999999"}) {
    store.set("/k", value);
    CHECK(store.ask_number(Opcode::add, "/k", 1).empty());
    CHECK(store.refusal == "ADD to a value that is not a number: /k");
    CHECK(store.get("/k") == value);
  }
}

TEST_CASE("store core: append creates or extends a value") {
  StoreFixture store;
  CHECK(store.ask_strings(Opcode::append, {"/k", "po"}).empty());
  CHECK(store.ask_strings(Opcode::append, {"/k", "tato"}).empty());
  CHECK(store.get("/k") == "potato");
}

TEST_CASE("store core: check succeeds if every key has a value or a queued element") {
  StoreFixture store;
  CHECK(store.ask_keys(Opcode::check, {}) == byte(0));
  CHECK(store.ask_keys(Opcode::check, {"/a"}) == byte(1));
  store.set("/a", "");
  CHECK(store.ask_keys(Opcode::check, {"/a", "/a"}) == byte(0));
  CHECK(store.ask_keys(Opcode::check, {"/a", "/q"}) == byte(1));
  store.ask_strings(Opcode::queue_push, {"/q", "e"});
  CHECK(store.ask_keys(Opcode::check, {"/a", "/q"}) == byte(0));
}

TEST_CASE("store core: sets and reads several values at once") {
  StoreFixture store;
  std::string request;
  RequestWriter(request, Opcode::multi_set)
      .number(2)
      .string("/a")
      .string("1")
      .string("/b")
      .string("");
  CHECK(store.ask(request).empty());
  std::string expected;
  append_bytes(expected, "1");
  append_bytes(expected, "");
  append_bytes(expected, "");
  CHECK(store.ask_keys(Opcode::multi_get, {"/a", "/b", "/missing"}) == expected);
  CHECK(store.ask_keys(Opcode::multi_get, {}).empty());
}

TEST_CASE("store core: delete counts the deleted keys, and num_keys does not count queues") {
  StoreFixture store;
  store.add("init/", 1);
  store.set("/a", "1");
  store.ask_strings(Opcode::queue_push, {"/q", "e"});
  store.ask_keys(Opcode::wait, {"/awaited"});
  CHECK(load_int<std::int64_t>(store.ask_strings(Opcode::get_num_keys, {})) == 2);
  CHECK(store.number(Opcode::delete_key, "/a") == 1);
  CHECK(store.number(Opcode::delete_key, "/a") == 0);
  CHECK(store.number(Opcode::delete_key, "/q") == 0);
  CHECK(store.number(Opcode::delete_key, "/awaited") == 0);
  CHECK(load_int<std::int64_t>(store.ask_strings(Opcode::get_num_keys, {})) == 1);
}

TEST_CASE("store core: lists keys in order, without queues or awaited keys") {
  StoreFixture store;
  for (const char* key : {"/b", "/a", "init/", "/c"}) {
    store.set(key, "");
  }
  store.ask_strings(Opcode::queue_push, {"/q", "e"});
  store.ask_keys(Opcode::wait, {"/awaited"});
  std::string expected;
  append_int(expected, std::int64_t{4});
  for (const char* key : {"/a", "/b", "/c", "init/"}) {
    append_bytes(expected, key);
  }
  CHECK(store.ask_strings(Opcode::list_keys, {}) == expected);
}

TEST_CASE("store core: ping returns its number, and validate returns nothing") {
  StoreFixture store;
  std::string ping;
  RequestWriter(ping, Opcode::ping).word(0xDEADBEEF);
  CHECK(store.ask(ping) == testing::from_hex("EFBEADDE"));
  std::string validate;
  RequestWriter(validate, Opcode::validate).word(kValidateMagic);
  CHECK(store.ask(validate).empty());
  CHECK(store.refusal.empty());
}

TEST_CASE("store core: a full store refuses requests that would grow it and serves the others") {
  ServerLimits limits;
  limits.stored_bytes = 10'000;
  StoreFixture store(limits);
  store.set("/a", std::string(8'000, 'a'));
  CHECK(store.ask_strings(Opcode::set, {"/b", std::string(4'000, 'b')}).empty());
  CHECK(store.refusal.starts_with("the store is full: it holds "));
  CHECK(store.ask_strings(Opcode::append, {"/a", std::string(4'000, 'b')}).empty());
  CHECK_FALSE(store.refusal.empty());
  CHECK(store.get("/a").size() == 8'000);
  CHECK(store.number(Opcode::delete_key, "/a") == 1);
  CHECK(store.core.stored_bytes() == 0);
  store.set("/b", std::string(4'000, 'b'));
  CHECK(store.refusal.empty());
}

TEST_CASE("store core: replacing a large value with a small one frees memory") {
  ServerLimits limits;
  limits.stored_bytes = 1'000'000;
  StoreFixture store(limits);
  for (int i = 0; i < 100; ++i) {
    store.set("/k" + std::to_string(i), std::string(500'000, 'x'));
    REQUIRE(store.refusal.empty());
    store.set("/k" + std::to_string(i), "small");
  }
  CHECK(store.core.stored_bytes() < 100 * 300);
}

TEST_CASE("store core: replies are limited in size") {
  ServerLimits limits;
  limits.reply_bytes = 1'000;
  StoreFixture store(limits);
  store.set("/a", std::string(600, 'a'));
  CHECK(store.ask_keys(Opcode::multi_get, {"/a"}).size() == 608);
  CHECK(store.ask_keys(Opcode::multi_get, {"/a", "/a"}).empty());
  CHECK(store.refusal == "MULTI_GET with a reply of 1216 bytes; the limit is 1000");
  store.ask_strings(Opcode::append, {"/a", std::string(600, 'a')});
  CHECK(store.ask_strings(Opcode::get, {"/a"}).empty());
  CHECK(store.refusal == "GET of a value of 1200 bytes; the limit is 1000");
  for (int i = 0; i < 10; ++i) {
    store.set(std::string(100, 'k') + std::to_string(i), "");
  }
  CHECK(store.ask_strings(Opcode::list_keys, {}).empty());
  CHECK(store.refusal.starts_with("LIST_KEYS with a reply of "));
}
