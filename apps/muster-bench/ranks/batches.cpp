// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ranks/batches.hpp"

#include "base/clock.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::bench {
namespace {

using collective::Buffer;
using collective::Communicator;
using collective::DType;
using collective::Op;

constexpr std::size_t kPage = 4096;
constexpr int kWarmUps = 3;

double microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

// The median over all batches of the slowest rank's time.
std::optional<double> slowest(Communicator& comm, std::vector<double> times) {
  const Buffer all{times.data(), times.size(), DType::f64};
  const auto done = comm.all_reduce(all, all, Op::max);
  return done ? std::optional(median_of(times)) : std::nullopt;
}

}  // namespace

bool passed(const collective::Result<void>& done) {
  if (!done) {
    fmt::print(stderr, "bench-ranks: {}\n", done.error().text);
  }
  return done.has_value();
}

Pages pages(std::size_t bytes) {
  return Pages(std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage));
}

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

int each_cell(Communicator& comm,
              const Arguments& cells,
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
      fmt::print("{} {:.9g}\n", key_of(*cell), *time);
    }
  }
  return 0;
}

}  // namespace muster::bench
