// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ranks/ranks.hpp"
#include "apps/muster-bench/stats.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>

namespace muster::bench {
namespace {

using collective::Buffer;
using collective::Communicator;
using collective::DType;
using collective::Op;

constexpr std::size_t kPage = 4096;
constexpr int kWarmUps = 3;

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};

std::unique_ptr<void, FreeDeleter> pages(std::size_t bytes) {
  return std::unique_ptr<void, FreeDeleter>(
      std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
}

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// The median over the batches of the slowest rank's time for one.
std::optional<double> slowest(Communicator& comm, std::vector<double> times) {
  const Buffer all{times.data(), times.size(), DType::f64};
  const auto done = comm.all_reduce(all, all, Op::max);
  return done ? std::optional(summarize(times).median) : std::nullopt;
}

// Microseconds of one of `count` repetitions, after a barrier; none after an error.
std::optional<double> timed(Communicator& comm, int count, const std::function<bool()>& once) {
  if (!passed(comm.barrier())) {
    return std::nullopt;
  }
  const auto begin = steady_now();
  for (int i = 0; i < count; ++i) {
    if (!once()) {
      return std::nullopt;
    }
  }
  return microseconds(steady_now() - begin) / count;
}

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

// Runs the batches of each cell and has rank 0 print the result.
int each_cell(Communicator& comm,
              const Words& cells,
              const std::function<std::optional<double>(const TimedCell&)>& batch) {
  for (const auto& word : cells) {
    const auto cell = parse_cell(word);
    if (!cell) {
      fmt::print(stderr, "bench-ranks: {}\n", cell.error().message);
      return 2;
    }
    auto warm_up = *cell;
    warm_up.in_a_row = std::min(kWarmUps, cell->in_a_row);
    std::vector<double> times;
    for (int i = 0; i <= cell->batches; ++i) {
      const auto time = batch(i == 0 ? warm_up : *cell);
      if (!time) {
        return 1;
      }
      if (i > 0) {
        times.push_back(*time);
      }
    }
    const auto time = slowest(comm, times);
    if (!time) {
      return 1;
    }
    if (comm.rank() == 0) {
      fmt::print("{}:{} {:.9g}\n", name_of(cell->dtype), cell->bytes, *time);
    }
  }
  return 0;
}

}  // namespace

bool passed(const collective::Result<void>& done) {
  if (!done) {
    fmt::print(stderr, "bench-ranks: {}\n", done.error().text);
  }
  return done.has_value();
}

int time_sums(Communicator& comm, const Words& cells, bool library_owned) {
  std::unique_ptr<void, FreeDeleter> plain;
  void* memory = nullptr;
  std::size_t held = 0;
  return each_cell(comm, cells, [&](const TimedCell& cell) -> std::optional<double> {
    if (cell.bytes != held) {  // the same on all ranks
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

int time_copies(Communicator& comm, const Words& cells) {
  return each_cell(comm, cells, [&](const TimedCell& cell) -> std::optional<double> {
    const auto from = pages(cell.bytes);
    const auto to = pages(cell.bytes);
    const auto pattern = pattern_before(cell.dtype, comm.rank());
    fill(from.get(), cell.bytes, pattern);
    std::memset(to.get(), 0, cell.bytes);
    const auto time = timed(comm, cell.in_a_row, [&] {
      std::memcpy(to.get(), from.get(), cell.bytes);
      asm volatile("" : : "r"(to.get()) : "memory");  // each copy is made
      return true;
    });
    return holds(to.get(), cell.bytes, pattern) ? time : std::nullopt;
  });
}

}  // namespace muster::bench
