// SPDX-License-Identifier: Apache-2.0
// Every operation on every type, compared with exact results; random sums must have equal bits on
// all ranks.
#include "nccl/gpu/rank.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <random>

namespace muster::gpu_check {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(30);
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

// Small numbers: sums and products over up to four ranks are exact in every type, and averages over
// up to two. Values depend on the position, so that a misplaced block is noticed.
double value_of(int rank, std::size_t i) {
  const auto mixed = static_cast<std::uint32_t>(i + 1) * 2654435761U;
  return (mixed >> (9 + 3 * rank) & 1) == 0 ? 4 : 2;
}

// The value that rank `from` sends to rank `to`.
double letter(int from, int to, std::size_t i) {
  return 1 + 30 * from + 10 * to + static_cast<double>(i % 7);
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

  // Runs the request on this input and returns the first `out_bytes` of the result.
  std::vector<std::byte> run(Request what,
                             const std::vector<std::byte>& input,
                             std::size_t out_bytes,
                             bool in_place = false) {
    in_.upload(input);
    out_.upload(std::vector<std::byte>(out_bytes, std::byte{0xa5}));  // reveals missing writes
    what.in = in_.get();
    what.out = in_place ? in_.get() : out_.get();
    const auto work = must(communicator_.start(what));
    must(work->wait(Duration::zero()));
    ++performed_;
    return (in_place ? in_ : out_).download(out_bytes);
  }

  // The input begins at byte `in_at` of one buffer, the result at `out_at`.
  std::vector<std::byte> run_in_place(Request what,
                                      const std::vector<std::byte>& whole,
                                      std::size_t in_at,
                                      std::size_t out_at,
                                      std::size_t out_bytes) {
    in_.upload(whole);
    what.in = static_cast<char*>(in_.get()) + in_at;
    what.out = static_cast<char*>(in_.get()) + out_at;
    must(must(communicator_.start(what))->wait(Duration::zero()));
    ++performed_;
    auto all = in_.download(out_at + out_bytes);
    all.erase(all.begin(), all.begin() + static_cast<long>(out_at));
    return all;
  }

  // Rounded differently: the bits of positive numbers are ordered like the numbers.
  void expect_near(const Request& what,
                   const std::vector<std::byte>& got,
                   const std::vector<std::byte>& want) const {
    const std::size_t width = collective::size_of(what.dtype);
    const auto bits = [width](const std::vector<std::byte>& from, std::size_t at) {
      std::uint64_t out = 0;
      std::memcpy(&out, from.data() + at, width);
      return out;
    };
    for (std::size_t at = 0; at < want.size(); at += width) {
      const std::uint64_t a = bits(got, at);
      const std::uint64_t b = bits(want, at);
      if ((a > b ? a - b : b - a) > 2) {
        expect(what, got, want);
      }
    }
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

bool is_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

bool is_fp8(DType dtype) {
  return dtype == DType::f8e4m3 || dtype == DType::f8e5m2;
}

// One type and operator. For averages over three, the numbers are divisible by three as far as the
// type permits.
class Reductions {
 public:
  Reductions(const Rank& rank, Bench& bench, DType dtype, Op op)
      : rank_(rank),
        bench_(bench),
        op_(op),
        dtype_(dtype),
        thirds_(op == Op::avg && rank.size() == 3) {}

  void run() {
    const bool refused = rank_.size() == 1 && op_ == Op::premul_sum;
    if ((thirds_ || refused) && is_fp8(dtype_)) {
      return;  // such sums are not exact; NCCL has no factor for them there
    }
    all_reduce_and_reduce();
    reduce_scatter();
  }

 private:
  static constexpr std::size_t kCount = 10'001;
  static constexpr std::size_t kBlock = 1000;

  [[nodiscard]] std::vector<std::byte> input(std::size_t count) const {
    return elements(dtype_, count, [&](std::size_t i) {
      return (thirds_ ? 3 : 1) * value_of(rank_.rank(), i);
    });
  }

  [[nodiscard]] std::vector<std::byte> want(std::size_t count, std::size_t from) const {
    return elements(dtype_, count, [&](std::size_t i) {
      return (thirds_ ? 3 : 1) * expected(op_, rank_.size(), from + i);
    });
  }

  [[nodiscard]] Request ask(Kind kind, std::size_t count) const {
    Request what = request(kind, dtype_, count, kTimeout);
    what.op = op_;
    what.scale = 2;
    what.root = rank_.size() - 1;
    return what;
  }

  void check(const Request& what, const std::vector<std::byte>& got, std::size_t from) const {
    const auto right = want(what.count, from);
    if (thirds_ && is_float(dtype_)) {
      bench_.expect_near(what, got, right);
    } else {
      bench_.expect(what, got, right);
    }
  }

  void all_reduce_and_reduce() {
    const auto mine = input(kCount);
    for (const bool in_place : {false, true}) {
      const Request all = ask(Kind::all_reduce, kCount);
      check(all, bench_.run(all, mine, mine.size(), in_place), 0);
      const Request one = ask(Kind::reduce, kCount);
      const auto reduced = bench_.run(one, mine, mine.size(), in_place);
      if (rank_.rank() == one.root) {
        check(one, reduced, 0);
      }
    }
  }

  void reduce_scatter() {
    const Request what = ask(Kind::reduce_scatter, kBlock);
    const auto blocks = input(kBlock * static_cast<std::size_t>(rank_.size()));
    const std::size_t from = kBlock * static_cast<std::size_t>(rank_.rank());
    const std::size_t bytes = kBlock * collective::size_of(dtype_);
    const std::size_t own = static_cast<std::size_t>(rank_.rank()) * bytes;
    check(what, bench_.run(what, blocks, bytes), from);
    check(what, bench_.run_in_place(what, blocks, 0, own, bytes), from);
  }

  const Rank& rank_;
  Bench& bench_;
  Op op_;
  DType dtype_;
  bool thirds_;
};

void moves(const Rank& rank, Bench& bench, DType dtype) {
  constexpr std::size_t kCount = 1000;
  const auto block = [&](int from, int to) {
    return elements(dtype, kCount, [&](std::size_t i) { return letter(from, to, i); });
  };
  const auto blocks = [&](const std::function<std::vector<std::byte>(int)>& of) {
    std::vector<std::byte> all;
    for (int other = 0; other < rank.size(); ++other) {
      const auto one = of(other);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  };
  const auto own = block(rank.rank(), 0);
  Request what = request(Kind::broadcast, dtype, kCount, kTimeout);
  what.root = rank.size() - 1;
  bench.expect(what, bench.run(what, own, own.size(), true), block(what.root, 0));
  what.kind = Kind::all_gather;
  const auto all = blocks([&](int from) { return block(from, 0); });
  bench.expect(what, bench.run(what, own, all.size()), all);
  const std::size_t place = static_cast<std::size_t>(rank.rank()) * own.size();
  std::vector<std::byte> only_own(all.size());
  std::ranges::copy(own, only_own.begin() + static_cast<long>(place));
  bench.expect(what, bench.run_in_place(what, only_own, place, 0, all.size()), all);
  what.kind = Kind::all_to_all;
  const auto letters = blocks([&](int to) { return block(rank.rank(), to); });
  bench.expect(what, bench.run(what, letters, letters.size()), blocks([&](int from) {
                 return block(from, rank.rank());
               }));
}

// Around the ring. Even ranks send first, so that no group is needed.
void ring(const Rank& rank, Bench& bench) {
  if (rank.size() % 2 != 0) {
    return;
  }
  const auto message = [&](int from) {
    return elements(DType::i32, 1000, [&](std::size_t i) { return 1e4 * from + double(i); });
  };
  Request send = request(Kind::send, DType::i32, 1000, kTimeout);
  send.root = (rank.rank() + 1) % rank.size();
  Request recv = request(Kind::recv, DType::i32, 1000, kTimeout);
  recv.root = (rank.rank() + rank.size() - 1) % rank.size();
  if (rank.rank() % 2 == 0) {
    bench.run(send, message(rank.rank()), 4);
  }
  const auto sent = message(recv.root);
  bench.expect(recv, bench.run(recv, message(rank.rank()), sent.size()), sent);
  if (rank.rank() % 2 != 0) {
    bench.run(send, message(rank.rank()), 4);
  }
}

// A sum of random numbers. All ranks compare its bits through their minimum and maximum.
void random_bits(const Rank& rank, Bench& bench) {
  constexpr std::size_t kCount = 1'000'000;
  std::mt19937_64 random(static_cast<std::uint64_t>(rank.rank()) + 1);
  std::normal_distribution<double> normal;
  const auto input = elements(DType::f32, kCount, [&](std::size_t) { return normal(random); });
  Request what = request(Kind::all_reduce, DType::f32, kCount, kTimeout);
  const auto sum = bench.run(what, input, input.size());
  what.dtype = DType::u32;
  for (const Op op : {Op::min, Op::max}) {
    what.op = op;
    bench.expect(what, bench.run(what, sum, sum.size()), sum);
  }
}

}  // namespace

void check_operations(Rank& rank) {
  auto communicator = must(rank.join(0, rank.size(), kTimeout));
  Bench bench(rank, *communicator, 8'000'000);
  for (const DType dtype : kTypes) {
    for (const Op op : kOps) {
      Reductions(rank, bench, dtype, op).run();
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
  auto communicator = must(rank.join(0, rank.size(), kTimeout));
  const int color = rank.rank() == 0 ? 0 : 1;
  auto child = must(communicator->split(color, -rank.rank()));
  const int want_size = color == 0 ? 1 : rank.size() - 1;
  const int want_rank = color == 0 ? 0 : rank.size() - 1 - rank.rank();
  if (child->size() != want_size || child->rank() != want_rank) {
    give_up(fmt::format("rank {} became {} of {}", rank.rank(), child->rank(), child->size()));
  }
  Bench bench(rank, *child, 64);
  const Request what = request(Kind::all_reduce, DType::i32, 1, kTimeout);
  const auto one = elements(DType::i32, 1, [](std::size_t) { return 1.0; });
  bench.expect(what, bench.run(what, one, 4), elements(DType::i32, 1, [&](std::size_t) {
                 return double(want_size);
               }));
  if (rank.rank() == 0) {
    row(fmt::format("split {} → 1 and {}", rank.size(), rank.size() - 1), false, "sums are right");
  }
}

}  // namespace muster::gpu_check
