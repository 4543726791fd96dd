// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/series.hpp"

#include "apps/muster-bench/foreign.hpp"
#include "base/clock.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace muster::bench {
namespace {

constexpr int kFailuresMax = 2;
constexpr Duration kBudget = std::chrono::seconds(20);  // of one contestant in one column

struct Attempt {
  std::vector<Cell> cells;
  double foreign = 0;
};

void take_turn(const Contestant& contestant, Cell& cell, Duration& spent) {
  if (!contestant.installed) {
    cell.missing = "not installed";
    return;
  }
  if (cell.failures >= kFailuresMax || spent > kBudget) {
    return;
  }
  const auto begin = steady_now();
  const auto samples = contestant.measure();
  spent += steady_now() - begin;
  if (samples) {
    cell.samples.insert(cell.samples.end(), samples->begin(), samples->end());
    return;
  }
  ++cell.failures;
  cell.missing = "failed";
  fmt::print(stderr, "    {}: {}\n", contestant.row, samples.error().message);
}

Attempt attempt(const std::vector<Contestant>& contestants, const Effort& effort) {
  Attempt result{std::vector<Cell>(contestants.size()), 0};
  std::vector<Duration> spent(contestants.size());
  const ForeignMeter meter;
  for (int round = 0; round < effort.rounds; ++round) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      if (!contestants[i].slow || round < effort.slow_rounds) {
        take_turn(contestants[i], result.cells[i], spent[i]);
      }
    }
  }
  result.foreign = meter.percent();
  return result;
}

Row& row_of(Table& table, const std::string& name) {
  const auto found = std::ranges::find(table.rows, name, &Row::name);
  return found != table.rows.end() ? *found : table.add_row(name);
}

}  // namespace

void run_column(Table& table,
                std::size_t column,
                const std::vector<Contestant>& contestants,
                const Effort& effort) {
  fmt::print(stderr, "  {}: {}\n", table.title, table.columns[column]);
  auto best = attempt(contestants, effort);
  const auto wanted = [&] {
    return best.foreign > kQuietPercent && steady_now() < effort.repeat_until;
  };
  for (int again = 0; again < effort.repeats && wanted(); ++again) {
    fmt::print(stderr, "    others used {:.0f} % of the machine: once more\n", best.foreign);
    auto next = attempt(contestants, effort);
    if (next.foreign < best.foreign) {
      best = std::move(next);
    }
  }
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    row_of(table, contestants[i].row).cells[column] = best.cells[i];
  }
  table.foreign.resize(std::max(table.foreign.size(), column + 1));
  table.foreign[column] = best.foreign;
}

}  // namespace muster::bench
