// SPDX-License-Identifier: Apache-2.0
// The pure parts: polling and clocks, settings, versions, library search paths, scalars; and the
// order of memory uses, on which the fakes' strictness depends.
#include "collective/nccl/library_places.hpp"
#include "collective/nccl/nccl_bootstrap.hpp"
#include "collective/nccl/nccl_core.hpp"
#include "collective/nccl/nccl_ops.hpp"
#include "nccl/fakes/cuda/order.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <cstring>

namespace muster::collective::nccl {
namespace {

using std::chrono::milliseconds;
using Kind = PollCore::Step::Kind;

constexpr TimePoint kStart{};

TEST_CASE("polls: the first ones have no pause, then pauses grow to a limit until the deadline") {
  PollCore poll(kStart + milliseconds(10));
  for (const Duration passed :
       {Duration(0), PollCore::kEager / 2, PollCore::kEager - Duration(1)}) {
    CHECK(poll.next(kInProgress, kStart + passed) == PollCore::Step{.kind = Kind::again});
  }
  Duration last{1};
  for (int i = 0; i < 20; ++i) {
    const auto step = poll.next(kInProgress, kStart + PollCore::kEager);
    CHECK(step.kind == Kind::again);
    CHECK(step.pause >= last);
    CHECK(step.pause <= PollCore::kLongestPause);
    last = step.pause;
  }
  CHECK(last == PollCore::kLongestPause);
  CHECK(poll.next(kInProgress, kStart + milliseconds(9)).pause == milliseconds(1));
  CHECK(poll.next(kInProgress, kStart + milliseconds(10)).kind == Kind::late);
  CHECK(poll.next(kSuccess, kStart + milliseconds(11)).kind == Kind::ended);
  CHECK(poll.next(6, kStart).kind == Kind::failed);
}

TEST_CASE("an operation is overdue one timeout after its start, or two after it was queued") {
  OperationClock clock(kStart, milliseconds(100));
  CHECK_FALSE(clock.overdue(kStart + milliseconds(199)));
  CHECK(clock.overdue(kStart + milliseconds(201)));
  clock.started(kStart + milliseconds(150));
  clock.started(kStart + milliseconds(250));  // only the first one counts
  CHECK_FALSE(clock.overdue(kStart + milliseconds(250)));
  CHECK(clock.overdue(kStart + milliseconds(251)));
}

TEST_CASE("blocking communicators: the environment decides, then the first file with the setting") {
  CHECK_FALSE(asks_for_blocking(std::nullopt, {"", ""}));
  CHECK(asks_for_blocking("1", {}));
  CHECK_FALSE(asks_for_blocking("0", {"NCCL_COMM_BLOCKING=1\n"}));
  CHECK(asks_for_blocking(std::nullopt, {"", "# x\nNCCL_DEBUG=INFO\n NCCL_COMM_BLOCKING = 1"}));
  CHECK_FALSE(asks_for_blocking(std::nullopt, {"NCCL_COMM_BLOCKING=0", "NCCL_COMM_BLOCKING=1"}));
  CHECK_FALSE(asks_for_blocking(std::nullopt, {"#NCCL_COMM_BLOCKING=1"}));
}

TEST_CASE("versions: equal ones are no error, whatever else the reports contain") {
  CHECK_FALSE(compare_versions({"22809 2.28.9 (/a) on x", "22809 2.28.9 (/b) on y"}));
  const auto text =
      compare_versions({"22809 2.28.9 (/a) on x", "22809 a", "23007 2.30.7 (/b) on y"});
  REQUIRE(text);
  CHECK(text->find("rank 0 has 2.28.9 (/a) on x, rank 2 has 2.30.7 (/b) on y") !=
        std::string::npos);
  CHECK(compare_versions({"22809 a", ""}));  // garbage from the store counts as a difference
  CHECK(describe_nccl_version(22809) == "2.28.9");
  CHECK(describe_nccl_version(2708) == "2.7.8");
}

TEST_CASE("libraries: a named file excludes others; else loaded ones, wheels, linker, toolkit") {
  Surroundings from;
  from.program = "/venv/bin/python3";
  from.environ.set("CUDA_HOME", "/cuda");
  from.list = [](const std::string& folder) {
    return folder == "/venv/lib" ? std::vector<std::string>{"python3.11", "pkgconfig"}
                                 : std::vector<std::string>{};
  };
  using PlaceKind = Place::Kind;
  const auto places = nccl_places(from);
  REQUIRE(places.size() == 7);
  CHECK(places[0] == Place{PlaceKind::loaded, "libnccl.so.2"});
  CHECK(places[1] ==
        Place{PlaceKind::file, "/venv/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2"});
  CHECK(places[2] == Place{PlaceKind::linker, "libnccl.so.2"});
  CHECK(places[3].name == "/cuda/lib64/libnccl.so.2");
  CHECK(places[6].name == "/usr/local/cuda/lib/libnccl.so.2");
  from.program = "/usr/bin/trainer";
  CHECK(nccl_places(from)[1].kind == PlaceKind::linker);
  from.environ.set("VIRTUAL_ENV", "/venv");
  CHECK(nccl_places(from)[1].kind == PlaceKind::file);
  from.environ.set(kNcclVariable, "/mine.so");
  CHECK(nccl_places(from) == std::vector<Place>{{PlaceKind::named, "/mine.so"}});
  from.environ.set(kCudaVariable, "/my-cuda.so");
  CHECK(cuda_places(from) == std::vector<Place>{{PlaceKind::named, "/my-cuda.so"}});
}

TEST_CASE("scalars are elements of the type, rounded to nearest") {
  const auto bits = [](DType dtype, double value) {
    std::uint64_t number = 0;
    const auto bytes = encode_scalar(dtype, value);
    std::memcpy(&number, bytes.data(), 8);
    return number;
  };
  CHECK(bits(DType::f16, 1.0 / 3) == 0x3555);
  CHECK(bits(DType::bf16, 1.0 / 3) == 0x3eab);
  CHECK(bits(DType::f32, 0.5) == 0x3f000000);
  CHECK(bits(DType::f64, 1) == 0x3ff0000000000000);
  CHECK(bits(DType::f8e4m3, 1) == 0x38);
  CHECK(bits(DType::f8e5m2, 1) == 0x3c);
  CHECK(bits(DType::i8, -1) == 0xff);
  CHECK(bits(DType::i32, -2) == 0xfffffffe);
}

TEST_CASE("an average of halves is scaled before the sum, so that it cannot overflow") {
  Request request;
  request.kind = muster::collective::Kind::all_reduce;
  request.op = Op::avg;
  request.dtype = DType::f16;
  CHECK(scalar_before_sum(request, 4) == 0.25);
  CHECK(scalar_before_sum(request, 1) == std::nullopt);
  request.dtype = DType::f32;
  CHECK(scalar_before_sum(request, 4) == std::nullopt);
  request.op = Op::premul_sum;
  request.scale = 3;
  CHECK(scalar_before_sum(request, 4) == 3);
  CHECK(scalar_before_sum(request, 1) == 3);
  request.scale = 1;
  CHECK(scalar_before_sum(request, 4) == 1);
  CHECK(scalar_before_sum(request, 1) == std::nullopt);
  CHECK(built_in_operator(Op::avg, 4) == ncclAvg);
  CHECK(built_in_operator(Op::avg, 1) == ncclSum);
  request.kind = muster::collective::Kind::broadcast;
  CHECK(scalar_before_sum(request, 4) == std::nullopt);
}

// The part of the elements that NCCL's blocks process, according to its source.
std::uint64_t taken_by_blocks(std::uint64_t count, std::size_t width) {
  const std::uint64_t blocks = std::clamp<std::uint64_t>((count * width + 16383) / 16384, 1, 32);
  const std::uint64_t packs = (count / blocks * width + 15) / 16;
  return std::min(count, blocks * packs * 16 / width);
}

TEST_CASE("a scalar sum on one rank: NCCL processes each part completely, in few calls") {
  CHECK(taken_by_blocks(10001, 8) == 10000);
  for (const std::size_t width : {1UL, 2UL, 4UL, 8UL}) {
    for (std::uint64_t count = 1; count < 9'000'000; count += 1 + count / 50) {
      std::uint64_t left = count;
      int calls = 0;
      for (; left > 0 && calls < 9; ++calls) {
        const std::uint64_t part = whole_part_of_one_rank(left, width);
        REQUIRE(part > 0);
        REQUIRE(part <= left);
        REQUIRE(taken_by_blocks(part, width) == part);
        left -= part;
      }
      REQUIRE(left == 0);
      CHECK(calls <= 2);
    }
  }
}

TEST_CASE("memory order: only streams, events and the host order memory uses") {
  fake::Order order;
  const int a = order.add_stream();
  const int b = order.add_stream();
  const fake::Span read{100, 200, false};
  const fake::Span write{150, 250, true};
  order.enqueue(a);
  CHECK_FALSE(order.touch(a, write, "A"));
  order.enqueue(a);
  CHECK_FALSE(order.touch(a, read, "A2"));  // the same stream
  order.enqueue(b);
  CHECK(order.touch(b, read, "B"));
  CHECK_FALSE(order.touch(b, {250, 300, true}, "B"));  // concurrent with it
  order.stream_waits(b, order.at(a));
  order.enqueue(b);
  CHECK_FALSE(order.touch(b, read, "B"));  // after an event
  CHECK(order.release(read));
  order.host_knows(order.at(a));
  CHECK(order.release(read));  // the host does not know that B's read has completed
  order.host_knows(order.at(b));
  CHECK_FALSE(order.release(read));
}

}  // namespace
}  // namespace muster::collective::nccl
