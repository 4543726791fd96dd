// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ranks/batches.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

using collective::Communicator;
using collective::Op;

// The buffers of one rank. The larger one has the cell's number of bytes, with one block per rank.
struct Sides {
  TimedCell cell;
  std::size_t ranks;
  int rank;
  Pages in = pages(cell.bytes);
  Pages out = pages(cell.bytes);

  [[nodiscard]] std::size_t block() const { return cell.bytes / ranks; }

  [[nodiscard]] char* block_of(const Pages& side, std::size_t i) const {
    return static_cast<char*>(side.get()) + i * block();
  }

  // Expected output block i on this rank. Its values depend on the sender and the receiver.
  [[nodiscard]] std::vector<char> expected(std::size_t i) const {
    const auto giver = static_cast<int>(i);
    switch (cell.operation) {
      case Timed::reduce_scatter:
        return pattern_after(cell.dtype, static_cast<int>(ranks), 1);
      case Timed::all_gather:
        return pattern_before(cell.dtype, giver);
      case Timed::all_to_all:
        return pattern_before(cell.dtype, giver + 2 * rank);
      default:
        return pattern_before(cell.dtype, 0);
    }
  }

  void fill_blocks() const {
    for (std::size_t i = 0; i < ranks; ++i) {
      const auto taker = cell.operation == Timed::all_to_all ? 2 * static_cast<int>(i) : 0;
      fill(block_of(in, i), block(), pattern_before(cell.dtype, rank + taker));
      fill(block_of(out, i), block(), pattern_before(cell.dtype, rank));
    }
  }

  [[nodiscard]] bool right() const {
    const std::size_t blocks = cell.operation == Timed::reduce_scatter ? 1 : ranks;
    for (std::size_t i = 0; i < blocks; ++i) {
      if (!holds(block_of(out, i), block(), expected(i))) {
        return false;
      }
    }
    return true;
  }
};

collective::Result<collective::Work> perform(Communicator& comm, const Sides& sides) {
  const auto dtype = sides.cell.dtype;
  const std::size_t all = sides.cell.count();
  const std::size_t part = all / sides.ranks;
  switch (sides.cell.operation) {
    case Timed::broadcast:
      return comm.broadcast({sides.out.get(), all, dtype}, 0);
    case Timed::all_gather:
      return comm.all_gather({sides.in.get(), part, dtype}, {sides.out.get(), all, dtype});
    case Timed::reduce_scatter:
      return comm.reduce_scatter(
          {sides.in.get(), all, dtype}, {sides.out.get(), part, dtype}, Op::sum);
    default:
      return comm.all_to_all({sides.in.get(), all, dtype}, {sides.out.get(), all, dtype});
  }
}

}  // namespace

std::optional<double> batch_of_others(Communicator& comm, const TimedCell& cell) {
  const Sides sides{
      .cell = cell, .ranks = static_cast<std::size_t>(comm.size()), .rank = comm.rank()};
  sides.fill_blocks();
  const auto time = timed(comm, cell.in_a_row, [&] {
    const auto done = perform(comm, sides);
    return done || passed(std::unexpected(done.error()));
  });
  if (time && !sides.right()) {
    fmt::print(stderr, "bench-ranks: wrong result in {}\n", word_of(cell));
    return std::nullopt;
  }
  return time;
}

}  // namespace muster::bench
