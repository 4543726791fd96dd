// SPDX-License-Identifier: Apache-2.0
// Ranks on one host that call different operations on GPUs: NCCL would hang or mix their data. All
// ranks get an error that quotes both sides, based on their flight recorders.
#include "nccl/unit/gpu_world.hpp"
#include "support/catch.hpp"

#include <array>
#include <functional>
#include <semaphore>

namespace muster::testing {
namespace {

using collective::Errc;
using collective::Error;
using collective::Result;
using collective::Work;

constexpr auto kLong = std::chrono::seconds(60);

Error error_of(const Result<Work>& work) {
  if (!work) {
    return work.error();
  }
  const auto done = work->wait();
  return done ? Error{} : done.error();
}

// The call of one rank, with a buffer that is large enough for all calls in this file.
using CallOf = std::function<Error(Communicator&, void* data)>;

Buffer part(const Communicator& comm, void* data, std::size_t count, DType dtype = DType::f32) {
  return {data, count, dtype, comm.rank()};
}

CallOf sum(std::size_t count, DType dtype = DType::f32, Op op = Op::sum) {
  return [=](Communicator& comm, void* data) {
    const Buffer buffer = part(comm, data, count, dtype);
    return error_of(comm.all_reduce(buffer, buffer, op));
  };
}

CallOf broadcast(int root) {
  return [=](Communicator& comm, void* data) {
    return error_of(comm.broadcast(part(comm, data, 4), root));
  };
}

CallOf transfer(std::size_t count) {
  return [=](Communicator& comm, void* data) {
    const Buffer buffer = part(comm, data, count);
    return error_of(comm.rank() == 0 ? comm.send(buffer, 1) : comm.recv(buffer, 0));
  };
}

struct Case {
  std::array<CallOf, 2> calls;
  std::array<const char*, 2> text;
};

TEST_CASE("ranks on one host that call different operations on GPUs get an error at once") {
  // Like NCCL if ranks differ: no operation completes.
  const Faults hang("hang_at=2");
  use_fakes();
  const std::array cases = {
      Case{{sum(4), sum(8)}, {"all_reduce #2 sum f32[4]", "all_reduce #2 sum f32[8]"}},
      Case{{sum(4), sum(4, DType::i32)}, {"#2 sum f32[4]", "#2 sum i32[4]"}},
      Case{{sum(4), sum(4, DType::f32, Op::max)}, {"#2 sum f32[4]", "#2 max f32[4]"}},
      Case{{sum(4), broadcast(0)}, {"all_reduce #2 sum f32[4]", "broadcast #2 f32[4] root 0"}},
      Case{{broadcast(1), broadcast(0)}, {"#2 f32[4] root 1", "#2 f32[4] root 0"}},
      Case{{transfer(4), transfer(8)}, {"send #1 f32[4] to rank 1", "recv #1 f32[8] from rank 0"}}};
  for (const Case& one : cases) {
    World{.ranks = 2, .timeout = kLong}.run([&](Communicator& comm) {
      const DeviceMemory memory(comm.rank(), 64);
      RANK_REQUIRE(sum(4)(comm, memory.get()).text.empty());
      const auto rank = static_cast<std::size_t>(comm.rank());
      const Error error = one.calls[rank](comm, memory.get());
      RANK_CHECK(error.code == Errc::mismatch);
      for (const int named : {0, 1}) {
        const std::string text = "rank " + std::to_string(named) + " called ";
        const auto at = error.text.find(text);
        RANK_REQUIRE(at != std::string::npos);
        const auto called = error.text.find(one.text[static_cast<std::size_t>(named)], at);
        RANK_CHECK(called != std::string::npos && called < at + text.size() + 16);
      }
      RANK_CHECK(comm.error().has_value());
    });
  }
}

// NCCL connects ranks in their first call of a kind, which then waits for the other ranks.
TEST_CASE("ranks on one host whose first GPU operations differ get an error at once") {
  use_fakes();
  const std::array<CallOf, 2> calls = {sum(4), broadcast(0)};
  World{.ranks = 2, .timeout = kLong}.run([&](Communicator& comm) {
    const DeviceMemory memory(comm.rank(), 64);
    const Error error = calls[static_cast<std::size_t>(comm.rank())](comm, memory.get());
    RANK_CHECK(error.code == Errc::mismatch);
    RANK_CHECK(error.text.find("called all_reduce #1 sum f32[4]") != std::string::npos);
    RANK_CHECK(error.text.find("called broadcast #1 f32[4] root 0") != std::string::npos);
  });
}

TEST_CASE("an operation that was rejected on one rank is not compared with other ranks") {
  use_fakes();
  std::binary_semaphore go_on{0};
  World{.ranks = 2, .timeout = kLong}.run([&](Communicator& comm) {
    const DeviceMemory memory(comm.rank(), 64);
    RANK_REQUIRE(sum(4)(comm, memory.get()).text.empty());
    const Buffer two = part(comm, memory.get(), 4);
    RANK_CHECK(error_of(comm.all_to_all(two, two)).code == Errc::unsupported);
    if (comm.rank() == 0) {
      go_on.acquire();
      RANK_CHECK(sum(4)(comm, memory.get()).text.empty());
      return;
    }
    // Gives the watchdog time to read what rank 0 has recorded late.
    const auto work = comm.all_reduce(two, two, Op::sum);
    RANK_REQUIRE(work.has_value());
    const auto early = work->wait(std::chrono::milliseconds(100));
    RANK_CHECK(!early && early.error().code == Errc::timeout);
    go_on.release();
    RANK_CHECK(work->wait().has_value());
  });
}

void call_the_same() {
  World{.ranks = 2, .timeout = kLong}.run([](Communicator& comm) {
    const DeviceMemory memory(comm.rank(), 64);
    RANK_REQUIRE(sum(8)(comm, memory.get()).text.empty());
    for (std::size_t count = 1; count < 8; ++count) {
      if (comm.rank() == 0) {
        const Buffer elsewhere{memory.get(), count + 8, DType::f32, 5};
        RANK_CHECK(error_of(comm.all_reduce(elsewhere, elsewhere, Op::max)).code != Errc::ok);
      }
      RANK_CHECK(sum(count)(comm, memory.get()).text.empty());
      RANK_CHECK(transfer(count)(comm, memory.get()).text.empty());
    }
    RANK_CHECK(!comm.error().has_value());
  });
}

TEST_CASE("ranks on one host with the same calls get no error, even after a rejected call") {
  use_fakes();
  call_the_same();
  constexpr const char* kCheck = "MUSTER_COLLECTIVE_NCCL_CHECK";
  REQUIRE(setenv(kCheck, "1", 1) == 0);  // NOLINT(concurrency-mt-unsafe)
  call_the_same();
  REQUIRE(unsetenv(kCheck) == 0);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace muster::testing
