// SPDX-License-Identifier: Apache-2.0
#include "collective/recorder/flight_recorder.hpp"
#include "muster/gradient_sync.h"
#include "muster/store.h"
#include "unit/collective/world.hpp"

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace muster::collective {
namespace {

std::string said() {
  std::string text(muster_last_error_text(nullptr, 0), '\0');
  muster_last_error_text(text.data(), text.size() + 1);
  return text;
}

// Ranks as threads that use only the C interface; `rank_main` receives the communicator.
template <class Main>
void run_ranks(int ranks, const Main& rank_main) {
  muster_store* store = nullptr;
  int port = 0;
  REQUIRE(muster_store_serve(0, &store, &port) == 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const muster_bootstrap bootstrap{.size = sizeof(muster_bootstrap),
                                       .store_host = "127.0.0.1",
                                       .store_port = port,
                                       .rank = rank,
                                       .ranks = ranks,
                                       .epoch = 0,
                                       .job = "c"};
      muster_comm* comm = nullptr;
      RANK_REQUIRE(muster_comm_create(&bootstrap, nullptr, &comm) == 0);
      rank_main(comm, rank);
      muster_comm_destroy(comm);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  muster_store_close(store);
}

muster_gradients* two_gradients(muster_comm* comm, const muster_gradients_options* options) {
  muster_gradients* sync = nullptr;
  int id = -1;
  const bool good = muster_gradients_create(comm, options, &sync) == 0 &&
                    muster_gradients_add(sync, "a", MUSTER_F32, 1000, &id) == 0 && id == 0 &&
                    muster_gradients_add(sync, "b", MUSTER_F32, 3, &id) == 0 && id == 1 &&
                    muster_gradients_finalize(sync) == 0;
  return good ? sync : nullptr;
}

float* memory_of(muster_gradients* sync, int id) {
  void* memory = nullptr;
  return muster_gradients_grad(sync, id, &memory) == 0 ? static_cast<float*>(memory) : nullptr;
}

TEST_CASE("capi: gradients are averaged or summed; accepts stats structs of any size") {
  run_ranks(2, [](muster_comm* comm, int rank) {
    muster_gradients_options options{};
    options.size = offsetof(muster_gradients_options, owns_memory);  // from an older caller
    options.average = MUSTER_OFF;
    options.owns_memory = MUSTER_OFF;  // beyond the size that it declares
    for (const auto* given : {static_cast<const muster_gradients_options*>(nullptr),
                              static_cast<const muster_gradients_options*>(&options)}) {
      muster_gradients* const sync = two_gradients(comm, given);
      RANK_REQUIRE(sync != nullptr);
      RANK_CHECK(muster_gradients_begin(sync, 1) == 0);
      memory_of(sync, 0)[999] = static_cast<float>(2 * rank + 2);
      RANK_CHECK(muster_gradients_mark_ready(sync, 1, nullptr) == 0);
      RANK_CHECK(muster_gradients_mark_ready(sync, 0, nullptr) == 0);
      muster_gradients_stats stats{};
      stats.size = offsetof(muster_gradients_stats, exposed_ns);
      stats.exposed_ns = -7;
      RANK_CHECK(muster_gradients_wait(sync, &stats) == 0);
      RANK_CHECK(stats.buckets == 1 && stats.exposed_ns == -7);
      RANK_CHECK(stats.bytes >= 4012);
      RANK_CHECK(memory_of(sync, 0)[999] == (given == nullptr ? 3 : 6));
      RANK_CHECK(muster_gradients_used(sync, 0) == 1);
      muster_gradients_zero(sync);
      RANK_CHECK(memory_of(sync, 0)[999] == 0);
      muster_gradients_free(sync);
    }
  });
}

TEST_CASE("capi: gradient errors are reported, and correct calls still succeed") {
  run_ranks(1, [](muster_comm* comm, int) {
    muster_gradients_options options{};
    options.size = sizeof(options);
    options.wire = 99;
    muster_gradients* sync = nullptr;
    RANK_CHECK(muster_gradients_create(comm, &options, &sync) == MUSTER_E_INVALID_ARGUMENT);
    RANK_CHECK(sync == nullptr);
    sync = two_gradients(comm, nullptr);
    RANK_REQUIRE(sync != nullptr);
    int id = 0;
    RANK_CHECK(muster_gradients_add(sync, "c", 99, 1, &id) == MUSTER_E_INVALID_ARGUMENT);
    RANK_CHECK(muster_gradients_add(sync, "c", MUSTER_F32, 1, &id) == MUSTER_E_INVALID_STATE);
    RANK_CHECK(said().find("'c' was added after finalize") != std::string::npos);
    RANK_CHECK(muster_gradients_mark_unused(sync, 1) == MUSTER_E_INVALID_STATE);
    RANK_CHECK(muster_gradients_begin(sync, 1) == 0);
    RANK_CHECK(muster_gradients_mark_ready(sync, 0, nullptr) == 0);
    RANK_CHECK(muster_gradients_wait(sync, nullptr) == MUSTER_E_INVALID_STATE);
    RANK_CHECK(said().find("not marked in this step: 'b'") != std::string::npos);
    RANK_CHECK(muster_gradients_mark_ready(sync, 1, nullptr) == 0);
    RANK_CHECK(muster_gradients_wait(sync, nullptr) == 0);
    muster_gradients_free(sync);
    muster_gradients_free(nullptr);
  });
}

struct Hooked {
  int called = 0;
  int answer = 0;
  bool with_work = false;
};

int take_maximum(void* context,
                 muster_comm* comm,
                 const muster_buffer* bucket,
                 muster_work** work) {
  auto* const hooked = static_cast<Hooked*>(context);
  ++hooked->called;
  muster_call call{};
  call.size = sizeof(call);
  call.kind = hooked->answer == MUSTER_E_INVALID_ARGUMENT ? 99 : MUSTER_ALL_REDUCE;
  call.op = MUSTER_MAX;
  call.root = -1;
  call.is_async = hooked->with_work ? 1 : 0;
  call.in = *bucket;
  call.out = *bucket;
  call.scale = 1;
  const int code = muster_run(comm, &call, hooked->with_work ? work : nullptr);
  return hooked->answer != 0 ? hooked->answer : code;
}

TEST_CASE("capi: a C hook performs each bucket, and mark_ready returns its error") {
  run_ranks(2, [](muster_comm* comm, int rank) {
    for (const bool with_work : {false, true}) {
      Hooked hooked{.with_work = with_work};
      muster_gradients_options options{};
      options.size = sizeof(options);
      options.first_bucket = options.bucket_cap = 64;
      options.hook = take_maximum;
      options.context = &hooked;
      muster_gradients* const sync = two_gradients(comm, &options);
      RANK_REQUIRE(sync != nullptr);
      RANK_CHECK(muster_gradients_begin(sync, 1) == 0);
      memory_of(sync, 1)[2] = static_cast<float>(rank);
      RANK_CHECK(muster_gradients_mark_ready(sync, 1, nullptr) == 0);
      RANK_CHECK(muster_gradients_mark_ready(sync, 0, nullptr) == 0);
      RANK_CHECK(muster_gradients_wait(sync, nullptr) == 0);
      RANK_CHECK(hooked.called == 2);
      RANK_CHECK(memory_of(sync, 1)[2] == 1);
      RANK_CHECK(muster_gradients_begin(sync, 1) == 0);
      hooked.answer = MUSTER_E_INVALID_ARGUMENT;  // with the error text of muster_run
      RANK_CHECK(muster_gradients_mark_ready(sync, 1, nullptr) == MUSTER_E_INVALID_ARGUMENT);
      RANK_CHECK(said().find("unknown operation kind") != std::string::npos);
      muster_gradients_free(sync);
    }
  });
  run_ranks(1, [](muster_comm* comm, int) {
    Hooked hooked{.answer = 5};
    muster_gradients_options options{};
    options.size = sizeof(options);
    options.hook = take_maximum;
    options.context = &hooked;
    muster_gradients* const sync = two_gradients(comm, &options);
    RANK_REQUIRE(sync != nullptr);
    RANK_CHECK(muster_gradients_begin(sync, 1) == 0);
    RANK_CHECK(muster_gradients_mark_ready(sync, 1, nullptr) == 0);
    RANK_CHECK(muster_gradients_mark_ready(sync, 0, nullptr) == MUSTER_E_ABORTED);
    RANK_CHECK(said().find("the hook returned 5") != std::string::npos);
    muster_gradients_free(sync);
  });
}

struct Told {
  std::vector<muster_gradients_bucket> buckets;
  std::vector<std::vector<int>> ids;
  std::vector<uint64_t> places;
};

int keep_what_is_told(void* context,
                      muster_comm* comm,
                      const muster_gradients_bucket* bucket,
                      muster_work** work) {
  auto* const told = static_cast<Told*>(context);
  told->buckets.push_back(*bucket);
  told->ids.emplace_back(bucket->ids, bucket->ids + bucket->gradients);
  told->places.insert(told->places.end(), bucket->firsts, bucket->firsts + bucket->gradients);
  told->places.insert(told->places.end(), bucket->counts, bucket->counts + bucket->gradients);
  Hooked hooked{.with_work = true};
  return take_maximum(&hooked, comm, &bucket->buffer, work);
}

TEST_CASE("capi: a hook can learn which gradients are at which offsets in its bucket") {
  run_ranks(2, [](muster_comm* comm, int rank) {
    for (const uint64_t cap : {64UL, 4096UL}) {
      Told told;
      muster_gradients_options options{};
      options.size = sizeof(options);
      options.first_bucket = options.bucket_cap = cap;
      options.hook = take_maximum;  // not called
      options.bucket_hook = keep_what_is_told;
      options.context = &told;
      muster_gradients* const sync = two_gradients(comm, &options);
      RANK_REQUIRE(sync != nullptr);
      RANK_CHECK(muster_gradients_begin(sync, 1) == 0);
      memory_of(sync, 1)[2] = static_cast<float>(rank);
      int stream = 0;
      RANK_CHECK(muster_gradients_mark_ready(sync, 1, nullptr) == 0);
      RANK_CHECK(muster_gradients_mark_ready(sync, 0, &stream) == 0);
      RANK_CHECK(muster_gradients_wait_for(sync, 60'000'000'000, nullptr) == 0);
      RANK_CHECK(memory_of(sync, 1)[2] == 1);
      const bool together = cap == 4096;
      RANK_REQUIRE(told.buckets.size() == (together ? 1 : 2));
      RANK_CHECK(told.buckets[0].is_last == (together ? 1 : 0) && told.buckets[0].index == 0);
      RANK_CHECK(told.buckets.back().is_last == 1);
      RANK_CHECK(told.buckets.back().index == told.buckets.size() - 1);
      RANK_CHECK(told.buckets.back().stream == &stream);
      RANK_CHECK(told.ids == (together ? std::vector<std::vector<int>>{{1, 0}}
                                       : std::vector<std::vector<int>>{{1}, {0}}));
      void* place = nullptr;
      RANK_CHECK(muster_gradients_grad(sync, 0, &place) == 0);
      const auto* const bucket = static_cast<float*>(told.buckets.back().buffer.data);
      RANK_CHECK(place == bucket + told.places[together ? 1 : 2]);
      muster_gradients_free(sync);
    }
  });
}

TEST_CASE("capi: gradients continue with another communicator, which hooks then receive") {
  run_ranks(2, [](muster_comm* comm, int rank) {
    Hooked hooked;
    muster_gradients_options options{};
    options.size = sizeof(options);
    options.hook = take_maximum;
    options.context = &hooked;
    muster_gradients* const sync = two_gradients(comm, &options);
    RANK_REQUIRE(sync != nullptr);
    memory_of(sync, 0)[7] = static_cast<float>(rank + 1);
    muster_comm* next = nullptr;
    RANK_REQUIRE(muster_comm_rebuild(comm, rank, 2, 1, &next) == 0);
    muster_abort(comm, "it is over");  // this communicator is unusable from now on
    RANK_REQUIRE(muster_gradients_rebind(sync, next) == 0);
    RANK_CHECK(memory_of(sync, 0)[7] == static_cast<float>(rank + 1));
    RANK_CHECK(muster_gradients_begin(sync, 1) == 0);
    RANK_CHECK(muster_gradients_mark_ready(sync, 1, nullptr) == 0);
    RANK_CHECK(muster_gradients_mark_ready(sync, 0, nullptr) == 0);
    RANK_CHECK(muster_gradients_wait(sync, nullptr) == 0);
    RANK_CHECK(memory_of(sync, 0)[7] == 2);
    muster_gradients_free(sync);
    muster_comm_destroy(next);
  });
}

TEST_CASE("capi: the flight recorder keeps the requested number of operations, or none") {
  for (const std::uint64_t wanted : {std::uint64_t{3}, std::uint64_t{MUSTER_RECORDER_OFF}}) {
    const muster_bootstrap bootstrap{.size = sizeof(muster_bootstrap),
                                     .store_host = "",
                                     .store_port = 0,
                                     .rank = 0,
                                     .ranks = 1,
                                     .epoch = 0,
                                     .job = "c"};
    muster_comm_options options{};
    options.size = sizeof(options);
    options.recorder_entries = wanted;
    muster_comm* comm = nullptr;
    REQUIRE(muster_comm_create(&bootstrap, &options, &comm) == 0);
    muster_call barrier{};
    barrier.size = sizeof(barrier);
    for (int i = 0; i < 5; ++i) {
      REQUIRE(muster_run(comm, &barrier, nullptr) == 0);
    }
    std::string dump(muster_comm_dump(comm, nullptr, 0), '\0');
    muster_comm_dump(comm, dump.data(), dump.size() + 1);
    const std::string before = "flight recorder: ";
    const auto at = dump.find(before) + before.size();
    const auto logs = read_flight_recorders(dump.substr(at, dump.find('\n', at) - at));
    CHECK((logs ? logs->at(0).records.size() : 0) == (wanted == 3 ? 3U : 0U));
    muster_comm_destroy(comm);
  }
}

}  // namespace
}  // namespace muster::collective
