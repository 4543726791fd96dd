// SPDX-License-Identifier: Apache-2.0
// Our client against our server, over real sockets.
#include "rendezvous/client/blocking_store.hpp"

#include "base/clock.hpp"
#include "rendezvous/client/prefix_store.hpp"
#include "rendezvous/wire/limits.hpp"
#include "support/catch.hpp"
#include "unit/rendezvous/server/server_thread.hpp"

#include <csignal>
#include <fstream>
#include <string>
#include <thread>

#include <pthread.h>
#include <unistd.h>

using namespace muster;
using testing::ServerThread;

namespace {

// Long, because it only expires if something is broken.
constexpr Duration kTimeout = std::chrono::seconds(30);
constexpr Duration kShort = std::chrono::milliseconds(50);

std::unique_ptr<BlockingStore> client_of(const ServerThread& server) {
  auto store = BlockingStore::connect("127.0.0.1", server.port(), kTimeout);
  REQUIRE(store);
  return std::move(*store);
}

}  // namespace

TEST_CASE("blocking store: every operation on keys works") {
  const ServerThread server;
  const auto store = client_of(server);
  CHECK(store->set("k", "v"));
  CHECK(store->get("k", kTimeout) == "v");
  CHECK(store->append("k", "w"));
  CHECK(store->get("k", kTimeout) == "vw");
  CHECK(store->add("n", 5) == 5);
  CHECK(store->add("n", -7) == -2);
  CHECK(store->compare_set("c", "", "one") == "one");
  CHECK(store->compare_set("c", "wrong", "two") == "one");
  CHECK(store->check({"k", "n"}) == true);
  CHECK(store->check({"k", "missing"}) == false);
  CHECK(store->multi_set({{"a", "1"}, {"b", ""}}));
  CHECK(store->multi_get({"b", "a"}, kTimeout) == std::vector<std::string>{"", "1"});
  CHECK(store->multi_get({}, kTimeout) == std::vector<std::string>{});
  CHECK(store->num_keys() == 5);
  CHECK(store->list_keys() == std::vector<std::string>{"a", "b", "c", "k", "n"});
  CHECK(store->delete_key("a") == true);
  CHECK(store->delete_key("a") == false);
  CHECK(store->queue_push("q", "e"));
  CHECK(store->queue_len("q") == 1);
  CHECK(store->queue_pop("q", kTimeout) == "e");
}

TEST_CASE("blocking store: a wait that times out leaves the connection usable") {
  const ServerThread server;
  const auto store = client_of(server);
  for (int i = 0; i < 3; ++i) {
    const auto waited = store->wait({"missing", "too"}, kShort);
    REQUIRE_FALSE(waited);
    CHECK(waited.error().code == Errc::timed_out);
    CHECK(waited.error().message == "timed out after 50ms waiting for the keys missing, too");
    CHECK(store->add("n", 1) == i + 1);
  }
  CHECK(store->get("missing", Duration::zero()).error().code == Errc::timed_out);
  CHECK(store->barrier("b", 2, kShort).error().message == "timed out after 50ms at the barrier b");
  CHECK(store->queue_pop("q", kShort).error().code == Errc::timed_out);
  CHECK(store->set("missing", "v"));
  CHECK(store->get("missing", Duration::zero()) == "v");
}

TEST_CASE("blocking store: wait returns after another client sets, and pop after it pushes") {
  const ServerThread server;
  const auto setter = client_of(server);
  Result<void> told = failure(Errc::internal, "not reached");
  std::thread waiter([&] {
    const auto store = BlockingStore::connect("127.0.0.1", server.port(), kTimeout);
    if (store && (*store)->wait({"go"}, kTimeout)) {
      const auto element = (*store)->queue_pop("q", kTimeout);
      told = (*store)->set("done", element ? *element : "nothing");
    }
  });
  CHECK(setter->set("go", ""));
  CHECK(setter->queue_push("q", "element"));
  CHECK(setter->get("done", kTimeout) == "element");
  waiter.join();
  CHECK(told);
}

TEST_CASE("blocking store: sixty-four clients count and wait for each other concurrently") {
  constexpr int kClients = 64;
  const ServerThread server;
  std::vector<std::thread> threads;
  threads.reserve(kClients);
  std::vector<std::string> wrong(kClients);
  for (int i = 0; i < kClients; ++i) {
    threads.emplace_back([&, i] {
      auto store = BlockingStore::connect("127.0.0.1", server.port(), kTimeout);
      const std::string mine = "key" + std::to_string(i);
      bool good = store.has_value();
      for (int round = 0; good && round < 20; ++round) {
        const std::string value = mine + std::to_string(round);
        good = (*store)->set(mine, value) && (*store)->get(mine, kTimeout) == value &&
               (*store)->add("sum", 1) &&
               (*store)->barrier("b" + std::to_string(round), kClients, kTimeout);
      }
      wrong[static_cast<std::size_t>(i)] = good ? "" : mine;
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(wrong == std::vector<std::string>(kClients));
  CHECK(client_of(server)->add("sum", 0) == kClients * 20);
}

TEST_CASE("blocking store: handles large values and many keys") {
  const ServerThread server;
  const auto store = client_of(server);
  const std::string large(kMaxValueBytes, 'x');
  CHECK(store->set("large", large));
  CHECK(store->get("large", kTimeout) == large);
  std::vector<std::pair<std::string, std::string>> pairs;
  std::vector<std::string> keys;
  for (int i = 0; i < 20'000; ++i) {
    keys.push_back("k" + std::to_string(i));
    pairs.emplace_back(keys.back(), std::to_string(i));
  }
  CHECK(store->multi_set(pairs));
  const auto values = store->multi_get(keys, kTimeout);
  REQUIRE(values);
  CHECK(values->at(19'999) == "19999");
}

TEST_CASE("blocking store: rejects what the server would refuse before sending it") {
  const ServerThread server;
  const auto store = client_of(server);
  CHECK(store->set(std::string(kMaxKeyBytes, 'k'), "").error().message ==
        "a key of 8192 bytes is too long; the limit is 8191");
  CHECK(store->set("k", std::string(kMaxValueBytes + 1, 'v')).error().message ==
        "the value of 'k' has 8388609 bytes; the limit is 8388608");
  CHECK(store->add(std::string(kMaxKeyBytes, 'k'), 1).error().code == Errc::protocol);
  CHECK(store->num_keys() == 0);
}

TEST_CASE("blocking store: a signal during a wait has no effect") {
  const ServerThread server;

  struct sigaction action {};

  action.sa_handler = [](int) {};

  struct sigaction before {};

  REQUIRE(::sigaction(SIGUSR1, &action, &before) == 0);
  const auto setter = client_of(server);
  Result<void> waited;
  std::thread waiter([&] {
    auto store = BlockingStore::connect("127.0.0.1", server.port(), kTimeout);
    waited = (*store)->set("ready", "");
    waited = waited ? (*store)->wait({"go"}, kTimeout) : waited;
  });
  CHECK(setter->wait({"ready"}, kTimeout));
  for (int i = 0; i < 50; ++i) {
    CHECK(::pthread_kill(waiter.native_handle(), SIGUSR1) == 0);
    CHECK(setter->check({"go"}) == false);
  }
  CHECK(setter->set("go", ""));
  waiter.join();
  CHECK(waited);
  REQUIRE(::sigaction(SIGUSR1, &before, nullptr) == 0);
}

TEST_CASE("blocking store: when the server is gone every call reports it") {
  auto server = std::make_unique<ServerThread>();
  const auto store = client_of(*server);
  CHECK(store->add("n", 1) == 1);
  server.reset();
  CHECK(store->add("n", 1).error().code == Errc::closed);
  CHECK(store->get("n", kShort).error().code == Errc::closed);
}

TEST_CASE("blocking store: two prefixes on one server are independent") {
  const ServerThread server;
  const auto below = client_of(server);
  PrefixStore one("one", *below);
  PrefixStore two("two", *below);
  CHECK(one.set("k", "1"));
  CHECK(two.check({"k"}) == false);
  CHECK(two.set("k", "2"));
  CHECK(one.get("k", kTimeout) == "1");
  CHECK(below->list_keys() == std::vector<std::string>{"one/k", "two/k"});
  CHECK(one.barrier("b", 1, kTimeout));
}

#ifndef __SANITIZE_ADDRESS__  // which has its own heap
namespace {

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t size = 0;
  std::size_t resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("blocking store: a server returns the memory of deleted keys to the system", "[slow]") {
  constexpr int kKeys = 20'000;
  const std::string value(5000, 'v');  // below malloc's mmap threshold
  const std::size_t bytes = kKeys * value.size();
  const ServerThread server;
  const auto store = client_of(server);
  const std::size_t before = resident_bytes();
  for (int i = 0; i < kKeys; ++i) {
    REQUIRE(store->set("key" + std::to_string(i), value));
  }
  REQUIRE(store->set("last", "v"));  // at the end of the heap, which cannot shrink by itself then
  REQUIRE(*store->num_keys() == kKeys + 1);
  REQUIRE(resident_bytes() > before + bytes * 3 / 4);
  for (int i = 0; i < kKeys; ++i) {
    REQUIRE(*store->delete_key("key" + std::to_string(i)));
  }
  // The server returns memory when it has no work.
  const TimePoint end = steady_now() + kTimeout;
  while (resident_bytes() > before + bytes / 4 && steady_now() < end) {
    std::this_thread::yield();
  }
  CHECK(resident_bytes() <= before + bytes / 4);
}
#endif
