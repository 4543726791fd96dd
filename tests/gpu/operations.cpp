// SPDX-License-Identifier: Apache-2.0
// Every operation with every type against exact results, and equal bits of random sums.
#include "gpu/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace muster::gpu_check {
namespace {

constexpr Duration kPatience = std::chrono::seconds(30);
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

// Powers of two: sums, products and halves of up to four ranks are exact in every type.
double value_of(int rank, std::size_t i) {
  return (static_cast<std::size_t>(rank) + i) % 2 == 0 ? 4 : 2;
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

class Bench {
 public:
  Bench(Rank& rank, nccl::NcclCommunicator& communicator, std::size_t bytes)
      : rank_(rank), communicator_(communicator), in_(rank, bytes), out_(rank, bytes) {}

  // Runs the request on this input; the first `out_bytes` of the result.
  std::vector<std::byte> run(Request what,
                             const std::vector<std::byte>& input,
                             std::size_t out_bytes,
                             bool in_place = false) {
    in_.upload(input);
    what.in = in_.get();
    what.out = in_place ? in_.get() : out_.get();
    const auto work = must(communicator_.start(what));
    must(work->wait(Duration::zero()));
    ++performed_;
    return (in_place ? in_ : out_).download(out_bytes);
  }

  void expect(const Request& what,
              const std::vector<std::byte>& got,
              const std::vector<std::byte>& want) const {
    if (got != want) {
      give_up(fmt::format("rank {}: {} gave a wrong result", rank_.rank(), what.describe()));
    }
  }

  [[nodiscard]] int performed() const { return performed_; }

 private:
  Rank& rank_;
  nccl::NcclCommunicator& communicator_;
  Memory in_;
  Memory out_;
  int performed_ = 0;
};

void reductions(const Rank& rank, Bench& bench, DType dtype, Op op) {
  constexpr std::size_t kCount = 10'001;
  // Averages of integers and of fp8 over three are no exact numbers.
  const bool exact = op != Op::avg || (rank.size() & (rank.size() - 1)) == 0;
  if (!exact) {
    return;
  }
  Request what = request(Kind::all_reduce, dtype, kCount, kPatience);
  what.op = op;
  what.scale = 2;
  const auto input =
      elements(dtype, kCount, [&](std::size_t i) { return value_of(rank.rank(), i); });
  const auto want =
      elements(dtype, kCount, [&](std::size_t i) { return expected(op, rank.size(), i); });
  for (const bool in_place : {false, true}) {
    bench.expect(what, bench.run(what, input, want.size(), in_place), want);
  }
  what.kind = Kind::reduce;
  what.root = rank.size() - 1;
  const auto reduced = bench.run(what, input, want.size());
  if (rank.rank() == what.root) {
    bench.expect(what, reduced, want);
  }
  what.kind = Kind::reduce_scatter;
  what.count = 1000;
  const auto size = static_cast<std::size_t>(rank.size());
  const auto at = static_cast<std::size_t>(rank.rank()) * 1000;
  const auto blocks =
      elements(dtype, size * 1000, [&](std::size_t i) { return value_of(rank.rank(), i); });
  const auto block =
      elements(dtype, 1000, [&](std::size_t i) { return expected(op, rank.size(), at + i); });
  bench.expect(what, bench.run(what, blocks, block.size()), block);
}

void moves(const Rank& rank, Bench& bench, DType dtype) {
  constexpr std::size_t kCount = 1000;
  const auto size = static_cast<std::size_t>(rank.size());
  const auto own = [&](int of) {
    return elements(dtype, kCount, [&](std::size_t i) { return value_of(of, i); });
  };
  Request what = request(Kind::broadcast, dtype, kCount, kPatience);
  what.root = rank.size() - 1;
  bench.expect(what, bench.run(what, own(rank.rank()), own(0).size(), true), own(what.root));
  what.kind = Kind::all_gather;
  std::vector<std::byte> all;
  for (int of = 0; of < rank.size(); ++of) {
    const auto block = own(of);
    all.insert(all.end(), block.begin(), block.end());
  }
  bench.expect(what, bench.run(what, own(rank.rank()), all.size()), all);
  what.kind = Kind::all_to_all;
  std::vector<std::byte> mine;
  for (std::size_t from = 0; from < size; ++from) {
    const auto block = own(rank.rank());
    mine.insert(mine.end(), block.begin(), block.end());
  }
  bench.expect(what, bench.run(what, all, mine.size()), mine);
}

// Around the ring: even ranks send first, so that no group is needed.
void ring(const Rank& rank, Bench& bench) {
  if (rank.size() % 2 != 0) {
    return;
  }
  const auto message = elements(DType::i32, 1000, [](std::size_t i) { return double(i); });
  Request send = request(Kind::send, DType::i32, 1000, kPatience);
  send.root = (rank.rank() + 1) % rank.size();
  Request recv = request(Kind::recv, DType::i32, 1000, kPatience);
  recv.root = (rank.rank() + rank.size() - 1) % rank.size();
  if (rank.rank() % 2 == 0) {
    bench.run(send, message, 4);
  }
  bench.expect(recv, bench.run(recv, message, message.size()), message);
  if (rank.rank() % 2 != 0) {
    bench.run(send, message, 4);
  }
}

// A sum of random numbers, whose bits all ranks compare by their least and greatest.
void random_bits(const Rank& rank, Bench& bench) {
  constexpr std::size_t kCount = 1'000'000;
  std::mt19937_64 random(static_cast<std::uint64_t>(rank.rank()) + 1);
  std::normal_distribution<double> normal;
  const auto input = elements(DType::f32, kCount, [&](std::size_t) { return normal(random); });
  Request what = request(Kind::all_reduce, DType::f32, kCount, kPatience);
  const auto sum = bench.run(what, input, input.size());
  what.dtype = DType::u32;
  for (const Op op : {Op::min, Op::max}) {
    what.op = op;
    bench.expect(what, bench.run(what, sum, sum.size()), sum);
  }
}

}  // namespace

void check_operations(Rank& rank) {
  auto communicator = must(rank.join(0, rank.size(), kPatience));
  Bench bench(rank, *communicator, 8'000'000);
  for (const DType dtype : kTypes) {
    for (const Op op : kOps) {
      reductions(rank, bench, dtype, op);
    }
    moves(rank, bench, dtype);
  }
  ring(rank, bench);
  random_bits(rank, bench);
  if (rank.rank() == 0) {
    row(fmt::format("{} rank(s) on one GPU: every type and operator, equal bits", rank.size()),
        false,
        fmt::format("{} operations, NCCL {} ({})",
                    bench.performed(),
                    nccl::describe_nccl_version(rank.library->version),
                    rank.library->path));
  }
}

void check_split(Rank& rank) {
  auto communicator = must(rank.join(0, rank.size(), kPatience));
  const int color = rank.rank() == 0 ? 0 : 1;
  auto child = must(communicator->split(color, -rank.rank()));
  const int want_size = color == 0 ? 1 : rank.size() - 1;
  const int want_rank = color == 0 ? 0 : rank.size() - 1 - rank.rank();
  if (child->size() != want_size || child->rank() != want_rank) {
    give_up(fmt::format("rank {} became {} of {}", rank.rank(), child->rank(), child->size()));
  }
  Bench bench(rank, *child, 64);
  const Request what = request(Kind::all_reduce, DType::i32, 1, kPatience);
  const auto one = elements(DType::i32, 1, [](std::size_t) { return 1.0; });
  bench.expect(what, bench.run(what, one, 4), elements(DType::i32, 1, [&](std::size_t) {
                 return double(want_size);
               }));
  if (rank.rank() == 0) {
    row(fmt::format("split {} → 1 and {}", rank.size(), rank.size() - 1), false, "sums are right");
  }
}

}  // namespace muster::gpu_check
