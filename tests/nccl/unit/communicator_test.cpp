// SPDX-License-Identifier: Apache-2.0
// The communicator over the fakes: every operation with every type, in place and out of place,
// streams, split, its own memory, a new epoch. Ranks are threads.
#include "nccl/unit/fakes.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <numeric>

namespace muster::testing {
namespace {

using collective::Pending;
using collective::Result;

constexpr std::array kTypes = {DType::i8,
                               DType::u8,
                               DType::i32,
                               DType::u32,
                               DType::i64,
                               DType::u64,
                               DType::f16,
                               DType::f32,
                               DType::f64,
                               DType::bf16,
                               DType::f8e4m3,
                               DType::f8e5m2};
constexpr std::array kOps = {Op::sum, Op::prod, Op::max, Op::min, Op::avg, Op::premul_sum};

// Small enough for sums and products to be exact in every type.
double value_of(int rank, std::size_t i) {
  return static_cast<double>(1 + (static_cast<std::size_t>(rank) + i) % 2);
}

double expected(Op op, int size, std::size_t i) {
  double sum = 0;
  double product = 1;
  double most = 0;
  double least = 9;
  for (int rank = 0; rank < size; ++rank) {
    const double value = value_of(rank, i);
    sum += value;
    product *= value;
    most = std::max(most, value);
    least = std::min(least, value);
  }
  switch (op) {
    case Op::prod:
      return product;
    case Op::max:
      return most;
    case Op::min:
      return least;
    case Op::avg:
      return sum / size;
    case Op::premul_sum:
      return 2 * sum;
    case Op::sum:
      break;
  }
  return sum;
}

struct Outcome {
  std::string error;
  std::vector<std::byte> bytes;
};

// Performs one request on every rank, on newly allocated memory, and returns each rank's output.
using Fill = std::function<std::vector<std::byte>(int rank)>;

class Group {
 public:
  explicit Group(int size, const std::shared_ptr<const nccl::NcclLibrary>& library = fake_nccl())
      : communicators_(static_cast<std::size_t>(size)) {
    on_ranks(size, [&](int rank) {
      auto made = join({.store = store_, .rank = rank, .size = size, .library = library});
      if (made) {
        communicators_[static_cast<std::size_t>(rank)] = *std::move(made);
      }
    });
  }

  ~Group() {
    on_ranks(size(), [&](int rank) { communicators_[static_cast<std::size_t>(rank)].reset(); });
  }

  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  [[nodiscard]] int size() const { return static_cast<int>(communicators_.size()); }

  [[nodiscard]] bool complete() const {
    return std::ranges::all_of(communicators_, [](const auto& one) { return one != nullptr; });
  }

  [[nodiscard]] nccl::NcclCommunicator& at(int rank) {
    return *communicators_[static_cast<std::size_t>(rank)];
  }

  // `what` is the same on all ranks; out_bytes is the size of the output.
  std::vector<Outcome> perform(const Request& what,
                               const Fill& fill,
                               std::size_t out_bytes,
                               bool in_place = false) {
    std::vector<Outcome> outcomes(communicators_.size());
    on_ranks(size(), [&](int rank) {
      auto& outcome = outcomes[static_cast<std::size_t>(rank)];
      const auto input = fill(rank);
      DeviceMemory in(rank, std::max(input.size(), out_bytes));
      DeviceMemory out(rank, out_bytes);
      in.upload(input);
      Request own = what;
      own.device = rank;
      own.in = in.get();
      own.out = in_place ? in.get() : out.get();
      const auto work = at(rank).start(own);
      const auto done =
          work ? (*work)->wait(Duration::zero()) : Result<void>(std::unexpected(work.error()));
      outcome.error = done ? "" : done.error().text;
      outcome.bytes = in_place ? in.download() : out.download();
      outcome.bytes.resize(out_bytes);
    });
    return outcomes;
  }

 private:
  LocalStore store_;
  std::vector<std::unique_ptr<nccl::NcclCommunicator>> communicators_;
};

TEST_CASE("all_reduce: every type and operator, in and out of place", "[slow]") {
  Group group(4);
  REQUIRE(group.complete());
  for (const DType dtype : kTypes) {
    for (const Op op : kOps) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{5001}}) {
        Request what = request(Kind::all_reduce, dtype, count, 0);
        what.op = op;
        what.scale = 2;
        const auto want =
            elements(dtype, count, [&](std::size_t i) { return expected(op, group.size(), i); });
        const auto outcomes = group.perform(
            what,
            [&](int rank) {
              return elements(dtype, count, [&](std::size_t i) { return value_of(rank, i); });
            },
            count * collective::size_of(dtype),
            count == 1);
        for (const auto& outcome : outcomes) {
          INFO(what.describe());
          CHECK(outcome.error.empty());
          CHECK(outcome.bytes == want);
        }
      }
    }
  }
}

TEST_CASE("reduce and broadcast: results depend on the root") {
  Group group(3);
  REQUIRE(group.complete());
  const auto fill = [](int rank) {
    return elements(DType::i32, 7, [&](std::size_t i) { return 10.0 * rank + double(i); });
  };
  Request what = request(Kind::reduce, DType::i32, 7, 0);
  what.root = 2;
  const auto reduced = group.perform(what, fill, 28);
  CHECK(reduced[2].bytes ==
        elements(DType::i32, 7, [](std::size_t i) { return 30 + 3.0 * double(i); }));
  what.kind = Kind::broadcast;
  const auto sent = group.perform(what, fill, 28, true);
  for (const auto& outcome : sent) {
    CHECK(outcome.error.empty());
    CHECK(outcome.bytes == fill(2));
  }
}

TEST_CASE("all_gather, reduce_scatter, all_to_all: blocks are in rank order") {
  Group group(3);
  REQUIRE(group.complete());
  const auto block = [](int rank) {
    return elements(DType::f32, 6000, [&](std::size_t i) { return rank * 1e4 + double(i); });
  };
  std::vector<std::byte> all;
  for (int rank = 0; rank < 3; ++rank) {
    const auto own = block(rank);
    all.insert(all.end(), own.begin(), own.end());
  }
  const std::size_t bytes = 24000;
  for (const auto& outcome :
       group.perform(request(Kind::all_gather, DType::f32, 6000, 0), block, 3 * bytes)) {
    CHECK(outcome.error.empty());
    CHECK(outcome.bytes == all);
  }
  const auto same = [&](int) { return all; };
  const auto scattered =
      group.perform(request(Kind::reduce_scatter, DType::f32, 6000, 0), same, bytes);
  for (int rank = 0; rank < 3; ++rank) {
    const auto want =
        elements(DType::f32, 6000, [&](std::size_t i) { return 3 * (rank * 1e4 + double(i)); });
    CHECK(scattered[static_cast<std::size_t>(rank)].bytes == want);
  }
  // A value for each source and destination.
  const auto letter = [](int from, int to) {
    return elements(
        DType::f32, 6000, [&](std::size_t i) { return from * 1e5 + to * 1e4 + double(i); });
  };
  const auto letters = [&](int from) {
    std::vector<std::byte> out;
    for (int to = 0; to < 3; ++to) {
      const auto one = letter(from, to);
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  };
  const auto turned =
      group.perform(request(Kind::all_to_all, DType::f32, 6000, 0), letters, 3 * bytes);
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::byte> want;
    for (int from = 0; from < 3; ++from) {
      const auto own = letter(from, rank);
      want.insert(want.end(), own.begin(), own.end());
    }
    CHECK(turned[static_cast<std::size_t>(rank)].bytes == want);
  }
}

TEST_CASE("in place: every operation for which NCCL supports it") {
  Group group(3);
  REQUIRE(group.complete());
  constexpr std::size_t kBlock = 1500;
  const std::size_t width = 4;
  const auto number = [](int rank, std::size_t i) { return rank * 1e4 + double(i); };
  const auto own = [&](int rank) {
    return elements(DType::f32, kBlock, [&](std::size_t i) { return number(rank, i); });
  };
  Request what = request(Kind::reduce, DType::f32, kBlock, 0);
  what.root = 1;
  const auto reduced = group.perform(what, own, kBlock * width, true);
  CHECK(reduced[1].bytes ==
        elements(DType::f32, kBlock, [](std::size_t i) { return 3e4 + 3 * double(i); }));
  // A rank's own block is at its offset in the result.
  std::array<std::vector<std::byte>, 3> gathered;
  std::array<std::vector<std::byte>, 3> scattered;
  on_ranks(3, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const std::size_t place = at * kBlock * width;
    DeviceMemory memory(rank, 3 * kBlock * width);
    char* const base = static_cast<char*>(memory.get());
    const auto run = [&](Kind kind, void* in, void* out) {
      Request own_request = request(kind, DType::f32, kBlock, rank);
      own_request.in = in;
      own_request.out = out;
      const auto work = group.at(rank).start(own_request);
      return work && (*work)->wait({});
    };
    std::vector<std::byte> input(3 * kBlock * width);
    std::ranges::copy(own(rank), input.begin() + static_cast<long>(place));
    memory.upload(input);
    if (run(Kind::all_gather, base + place, base)) {
      gathered[at] = memory.download();
      gathered[at].resize(input.size());
    }
    // Values depend on rank and position, so that a misplaced block is noticed.
    memory.upload(elements(DType::f32, 3 * kBlock, [&](std::size_t i) { return number(rank, i); }));
    if (run(Kind::reduce_scatter, base, base + place)) {
      const auto all = memory.download();
      scattered[at].assign(all.begin() + static_cast<long>(place),
                           all.begin() + static_cast<long>(place + kBlock * width));
    }
  });
  for (int rank = 0; rank < 3; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    CHECK(gathered[at] == elements(DType::f32, 3 * kBlock, [&](std::size_t i) {
            return number(static_cast<int>(i / kBlock), i % kBlock);
          }));
    CHECK(scattered[at] == elements(DType::f32, kBlock, [&](std::size_t i) {
            return 3e4 + 3 * double(at * kBlock + i);
          }));
  }
}

TEST_CASE("all_to_all with an NCCL that lacks the call: sends and receives in one group") {
  auto old = std::make_shared<nccl::NcclLibrary>(*fake_nccl());
  old->call.all_to_all = nullptr;
  Group group(2, old);
  REQUIRE(group.complete());
  const auto fill = [](int rank) {
    return elements(DType::i32, 2, [&](std::size_t i) { return 10.0 * rank + double(i); });
  };
  const auto outcomes = group.perform(request(Kind::all_to_all, DType::i32, 1, 0), fill, 8);
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(outcomes[static_cast<std::size_t>(rank)].error.empty());
    CHECK(outcomes[static_cast<std::size_t>(rank)].bytes ==
          elements(DType::i32, 2, [&](std::size_t i) { return 10.0 * double(i) + rank; }));
  }
}

TEST_CASE("send, recv and barrier") {
  Group group(2);
  REQUIRE(group.complete());
  std::vector<Outcome> outcomes(2);
  const auto message = elements(DType::u8, 100'000, [](std::size_t i) { return double(i % 251); });
  on_ranks(2, [&](int rank) {
    DeviceMemory memory(rank, message.size());
    memory.upload(rank == 0 ? message : std::vector<std::byte>(message.size()));
    Request what =
        request(rank == 0 ? Kind::send : Kind::recv, DType::u8, message.size(), rank, memory);
    what.root = 1 - rank;
    const auto work = group.at(rank).start(what);
    const auto all_here = group.at(rank).start(request(Kind::barrier, DType::u8, 0, rank));
    auto& outcome = outcomes[static_cast<std::size_t>(rank)];
    outcome.error = work && (*work)->wait({}) && all_here && (*all_here)->wait({}) ? "" : "failed";
    outcome.bytes = memory.download();
  });
  CHECK(outcomes[0].error.empty());
  CHECK(outcomes[1].error.empty());
  CHECK(outcomes[1].bytes == message);
}

TEST_CASE("calls that continue in the background are polled until they finish") {
  const Faults slow("in_progress=5 init_ms=30");
  Group group(2);
  REQUIRE(group.complete());
  const auto fill = [](int) { return elements(DType::f32, 3, [](std::size_t) { return 2.0; }); };
  Request what = request(Kind::all_reduce, DType::f32, 3, 0);
  what.op = Op::premul_sum;
  what.scale = 0.5;
  for (const auto& outcome : group.perform(what, fill, 12)) {
    CHECK(outcome.error.empty());
    CHECK(outcome.bytes == fill(0));
  }
}

TEST_CASE("split: ranks of a colour are ordered by key") {
  Group group(4);
  REQUIRE(group.complete());
  std::array<int, 4> ranks{};
  std::array<int, 4> sizes{};
  std::array<std::vector<std::byte>, 4> sums;
  on_ranks(4, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    auto child = group.at(rank).split(rank == 3 ? -1 : rank % 2, -rank);
    sizes[at] = child && !*child ? 0 : -1;
    if (!child || !*child) {
      return;
    }
    ranks[at] = (*child)->rank();
    sizes[at] = (*child)->size();
    DeviceMemory memory(rank, 4);
    memory.upload(elements(DType::i32, 1, [&](std::size_t) { return 1 << rank; }));
    Request what = request(Kind::all_reduce, DType::i32, 1, rank, memory);
    const auto work = (*child)->start(what);
    static_cast<void>(work && (*work)->wait({}));
    sums[at] = memory.download();
  });
  CHECK(sizes == std::array{2, 1, 2, 0});
  CHECK(ranks == std::array{1, 0, 0, 0});
  CHECK(sums[0] == elements(DType::i32, 1, [](std::size_t) { return 5.0; }));
  CHECK(sums[1] == elements(DType::i32, 1, [](std::size_t) { return 2.0; }));
}

TEST_CASE("the communicator's memory is zeroed, and registered on request") {
  for (const bool registered : {false, true}) {
    LocalStore store;
    auto made = join({.store = store, .register_buffers = registered});
    REQUIRE(made);
    const auto first = (*made)->alloc(1000);
    const auto second = (*made)->alloc(1000);
    REQUIRE(first);
    REQUIRE(second);
    std::vector<std::byte> bytes(1000, std::byte{1});
    const auto device = *nccl::GpuDevice::open(fake_driver(), 0);
    const nccl::CurrentDevice current(*device);
    device->cuda().copy_from_device(bytes.data(), reinterpret_cast<CUdeviceptr>(*first), 1000);
    CHECK(bytes == std::vector<std::byte>(1000));
    CHECK((*made)->free(*first));
    CHECK_FALSE((*made)->free(*first));
    // The second one is freed with the communicator.
  }
}

TEST_CASE("requests that NCCL does not support are rejected before the call") {
  LocalStore store;
  auto made = join({.store = store});
  REQUIRE(made);
  DeviceMemory memory(0, 8);
  Request what = request(Kind::all_to_all, DType::f32, 1, 0, memory);
  CHECK((*made)->refuse(what).error().code == collective::Errc::unsupported);
  what = request(Kind::all_reduce, DType::f32, 1, 1);
  CHECK((*made)->refuse(what).error().code == collective::Errc::invalid_argument);
}

}  // namespace
}  // namespace muster::testing
