// SPDX-License-Identifier: Apache-2.0
// The C++17 headers over the C interface, with one rank and a store in this process.
#include "muster/gradient_sync.hpp"
#include "muster/store.hpp"
#include "muster/worker.hpp"
#include "support/catch.hpp"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

muster::Store connected(const muster::StoreServer& server) {
  auto store = muster::Store::connect("127.0.0.1", server.port(), 20s);
  REQUIRE(store);
  return std::move(*store);
}

muster::StoreServer served() {
  auto server = muster::StoreServer::serve();
  REQUIRE(server);
  return std::move(*server);
}

muster::Communicator alone() {
  auto made = muster::Communicator::create({});
  REQUIRE(made);
  return std::move(*made);
}

}  // namespace

TEST_CASE("public headers: a store keeps, counts and compares values") {
  const auto server = served();
  auto store = connected(server);
  const std::string bytes("a\0b\xff", 4);
  REQUIRE(store.set("key", bytes));
  CHECK(*store.get("key", 5s) == bytes);
  CHECK(*store.add("count", 3) == 3);
  CHECK(*store.add("count", -1) == 2);
  CHECK(*store.compare_set("key", bytes, "new") == "new");
  CHECK(*store.compare_set("key", bytes, "newer") == "new");
  CHECK(*store.check({"key", "count"}));
  CHECK_FALSE(*store.check({"key", "none"}));
  CHECK(*store.erase("key"));
  CHECK_FALSE(*store.erase("key"));
}

TEST_CASE("public headers: a wait that times out leaves the store unchanged") {
  const auto server = served();
  auto store = connected(server);
  const auto late = store.wait({"none"}, 1ms);
  REQUIRE_FALSE(late);
  CHECK(late.error().code == muster::Errc::timeout);
  CHECK(late.error().text.find("muster_store_wait") == 0);
  REQUIRE(store.set("none", ""));
  CHECK(store.wait({"none"}, 5s));
  CHECK(*store.get("none", 5s) == "");
}

TEST_CASE("public headers: all ranks meet at a barrier") {
  const auto server = served();
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&server] {
      auto store = muster::Store::connect("127.0.0.1", server.port(), 20s);
      const bool met = store && store->barrier("all", 3, 20s);
      if (met) {
        static_cast<void>(store->add("met", 1));
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  auto store = connected(server);
  CHECK(*store.add("met", 0) == 3);
}

TEST_CASE("public headers: a nonexistent port is rejected, and an unserved port is an error") {
  muster_store_client* client = nullptr;
  CHECK(muster_store_connect("127.0.0.1", 65536, 1, &client) == MUSTER_E_INVALID_ARGUMENT);
  const auto nobody = muster::Store::connect("127.0.0.1", 1, 1ms);
  REQUIRE_FALSE(nobody);
  CHECK(std::string(muster::name_of(nobody.error().code)) == "store");
  CHECK_FALSE(nobody.error().text.empty());
}

TEST_CASE("public headers: operations of one rank, and rejected calls") {
  auto comm = alone();
  CHECK(comm.rank() == 0);
  CHECK(comm.size() == 1);
  float values[] = {1, 2, 3};
  REQUIRE(comm.all_reduce({values, 3}, muster::Op::sum));
  CHECK(values[2] == 3);
  double from = 7;
  double to = 0;
  auto gathered = comm.all_gather({&from, 1}, {&to, 1});
  REQUIRE(gathered);
  CHECK(gathered->wait());
  CHECK(to == 7);
  const auto wrong = comm.broadcast({values, 3}, 5);
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().code == muster::Errc::invalid_argument);
  CHECK_FALSE(comm.error());
  auto none = comm.split(-1, 0);
  REQUIRE(none);
  CHECK_FALSE(none->has_value());
  REQUIRE(comm.barrier());
  auto memory = comm.alloc(4096);
  REQUIRE(memory);
  CHECK(comm.free(*memory));
  comm.abort("enough");
  REQUIRE(comm.error());
  CHECK(comm.error()->code == muster::Errc::aborted);
}

TEST_CASE("public headers: sums gradients, and a hook may perform a bucket") {
  auto comm = alone();
  std::size_t seen = 0;
  muster::GradientSyncOptions options;
  options.average = false;
  options.hook = [&](const muster::GradientBucket& bucket) -> muster::Result<muster::Work> {
    seen += bucket.gradients;
    static_cast<float*>(bucket.buffer.data)[0] *= 2;
    return muster::Work();
  };
  auto sync = muster::GradientSync::create(comm, options);
  REQUIRE(sync);
  auto id = sync->add("weights", muster::DType::f32, 4);
  REQUIRE(id);
  REQUIRE(sync->finalize());
  auto* const gradient = static_cast<float*>(*sync->grad(*id));
  REQUIRE(sync->begin());
  gradient[0] = 4;
  REQUIRE(sync->mark_ready(*id));
  const auto stats = sync->wait();
  REQUIRE(stats);
  CHECK(stats->buckets == 1);
  CHECK(seen == 1);
  CHECK(static_cast<float*>(*sync->grad(*id))[0] == 8);
}

TEST_CASE("public headers: converts results to std::expected and back") {
  const std::expected<int, muster::Error> good = muster::Result<int>(5);
  CHECK(*good == 5);
  const muster::Result<int> failed = std::expected<int, muster::Error>(
      std::unexpect, muster::failure(muster::Errc::system, "no disk"));
  REQUIRE_FALSE(failed);
  CHECK(failed.error().text == "no disk");
  CHECK(failed.value_or(3) == 3);
  const std::expected<void, muster::Error> done = muster::Result<void>();
  CHECK(done.has_value());
}

TEST_CASE("public headers: outside of muster a worker's messages go nowhere") {
  muster::worker::progress(1);
  CHECK_FALSE(muster::worker::ready());
  CHECK_FALSE(muster::worker::stopping());
  CHECK_FALSE(muster::worker::preempted());
  CHECK_FALSE(muster::worker::deadline());
  CHECK_FALSE(muster::worker::saved(1));
  muster::worker::Feed feed;
  CHECK(feed.next(1ms).kind == muster::worker::NewsKind::ended);
}
