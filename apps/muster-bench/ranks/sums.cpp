// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ranks/batches.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

using collective::Buffer;
using collective::Communicator;
using collective::Op;

std::optional<double> batch_of_sums(Communicator& comm, const TimedCell& cell, void* memory) {
  const Buffer buffer{memory, cell.count(), cell.dtype};
  fill(memory, cell.bytes, pattern_before(cell.dtype, comm.rank()));
  const auto time = timed(comm, cell.in_a_row, [&] {
    const auto done = comm.all_reduce(buffer, buffer, Op::sum);
    return done || passed(std::unexpected(done.error()));
  });
  if (!time) {
    return time;
  }
  if (!holds(memory, cell.bytes, pattern_after(cell.dtype, comm.size(), cell.in_a_row))) {
    fmt::print(stderr, "bench-ranks: wrong sum in {}\n", word_of(cell));
    return std::nullopt;
  }
  return time;
}

}  // namespace

int time_sums(Communicator& comm, const Arguments& cells, bool library_owned) {
  Pages plain;
  void* memory = nullptr;
  std::size_t held = 0;
  return each_cell(comm, cells, [&](const TimedCell& cell) -> std::optional<double> {
    if (cell.operation != Timed::all_reduce) {
      return batch_of_others(comm, cell);
    }
    if (cell.bytes != held) {  // both values are equal on all ranks
      plain.reset();
      if (library_owned) {
        if (memory != nullptr && !passed(comm.free(memory))) {
          return std::nullopt;
        }
        const auto given = comm.alloc(cell.bytes);
        memory = given ? *given : nullptr;
      } else {
        plain = pages(cell.bytes);
        memory = plain.get();
      }
      held = cell.bytes;
    }
    return memory == nullptr ? std::nullopt : batch_of_sums(comm, cell, memory);
  });
}

}  // namespace muster::bench
