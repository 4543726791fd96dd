// SPDX-License-Identifier: Apache-2.0
// How long operations block their callers, as counted by the flight recorder.
#include "base/clock.hpp"
#include "base/fd.hpp"
#include "collective/communicator.hpp"
#include "collective/recorder/flight_recorder.hpp"
#include "unit/collective/world.hpp"

#include <string>
#include <thread>

#include <fcntl.h>

namespace muster::collective {
namespace {

using testing::World;

constexpr Duration kLate = std::chrono::milliseconds(5);
constexpr int kTries = 200;

// From rank 1, whose recorder is the second one in the ranks' shared memory.
FlightWaits waits_of_rank_1(const Communicator& comm) {
  const std::string dump = comm.dump();
  const std::string mark = "flight recorder: ";
  const auto at = dump.find(mark) + mark.size();
  const UniqueFd fd(::open(dump.substr(at, dump.find('\n', at) - at).c_str(), O_RDONLY));
  const auto waits = read_flight_waits(fd.get());
  return waits.size() == 2 ? waits[1] : FlightWaits{};
}

void compute_for(Duration time) {
  for (const TimePoint end = steady_now() + time; steady_now() < end;) {
  }
}

// Rank 0 is late for each operation, and rank 1 waits (on a busy machine perhaps not every time).
void check_waits(bool async) {
  World{.ranks = 2}.run([async](Communicator& comm) {
    bool stop = false;
    for (int i = 0; i < kTries && !stop; ++i) {
      float value = 0;
      if (comm.rank() == 0) {
        compute_for(kLate);
        const FlightWaits waits = waits_of_rank_1(comm);
        value = waits.waits > 2 && waits.waited_ns > 2'000'000 ? 1 : 0;
      }
      const Buffer buffer{&value, 1, DType::f32};
      const auto work = comm.all_reduce(buffer, buffer, Op::sum, {.async = async});
      RANK_REQUIRE(work && work->wait());
      stop = value > 0;
    }
    RANK_CHECK(stop);
  });
}

// How a rank learns that an asynchronous operation has completed.
using Learn = void (*)(const Work&);

void check_no_waits(Learn learn) {
  World{.ranks = 2}.run([learn](Communicator& comm) {
    constexpr int kOperations = 20;
    std::uint64_t before = 0;
    for (int i = 0; i < kOperations; ++i) {
      float value = 0;
      const Buffer buffer{&value, 1, DType::f32};
      if (comm.rank() == 0) {
        compute_for(kLate);
      }
      const auto work = comm.all_reduce(buffer, buffer, Op::sum, {.async = true});
      RANK_REQUIRE(work);
      learn(*work);
      RANK_REQUIRE(work->wait());
      before = i == 0 ? waits_of_rank_1(comm).waits : before;
    }
    RANK_CHECK(waits_of_rank_1(comm).operations >= kOperations);
    RANK_CHECK(waits_of_rank_1(comm).waits == before);
  });
}

}  // namespace

TEST_CASE("waits: computing alongside an operation does not count as waiting") {
  check_no_waits([](const Work& work) {
    while (!work.done()) {
    }
  });
}

TEST_CASE("waits: a helper's wait does not count while the caller computes") {
  World{.ranks = 2}.run([](Communicator& comm) {
    constexpr int kOperations = 20;
    constexpr Duration kEach = std::chrono::microseconds(200);  // between two clock readings
    const std::uint64_t before = waits_of_rank_1(comm).waited_ns;
    const TimePoint begun = steady_now();
    const Duration used = thread_cpu_time();
    for (int i = 0; i < kOperations; ++i) {
      float value = 0;
      const Buffer buffer{&value, 1, DType::f32};
      if (comm.rank() == 0) {
        compute_for(kLate);
      }
      const auto work = comm.all_reduce(buffer, buffer, Op::sum, {.async = true});
      RANK_REQUIRE(work);
      std::thread helper([&work] { RANK_CHECK(work->wait()); });
      while (!work->done()) {
      }
      helper.join();
    }
    if (comm.rank() == 1) {  // on a busy machine it did not always run
      const Duration idle = steady_now() - begun - (thread_cpu_time() - used);
      const auto waited = std::chrono::nanoseconds(waits_of_rank_1(comm).waited_ns - before);
      RANK_CHECK(waited <= idle + kOperations * kEach);
    }
  });
}

TEST_CASE("waits: a helper's wait counts if the caller waits for the helper") {
  World{.ranks = 2}.run([](Communicator& comm) {
    bool stop = false;
    for (int i = 0; i < kTries && !stop; ++i) {
      float value = 0;
      if (comm.rank() == 0) {
        compute_for(kLate);
        value = waits_of_rank_1(comm).waited_ns > 2'000'000 ? 1 : 0;
      }
      // Two at a time: time spent waiting for both counts once.
      const Buffer buffer{&value, 1, DType::f32};
      float other = 0;
      const Buffer more{&other, 1, DType::f32};
      const auto work = comm.all_reduce(buffer, buffer, Op::sum, {.async = true});
      const auto second = comm.all_reduce(more, more, Op::sum, {.async = true});
      RANK_REQUIRE(work && second);
      std::thread([&] { RANK_CHECK(work->wait() && second->wait()); }).join();
      stop = value > 0;
    }
    RANK_CHECK(stop);
  });
}

TEST_CASE("waits: the first rank to arrive at an operation waits") {
  check_waits(false);
}

TEST_CASE("waits: waiting for an operation that was started earlier counts as waiting") {
  check_waits(true);
}

}  // namespace muster::collective
