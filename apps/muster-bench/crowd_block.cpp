// SPDX-License-Identifier: Apache-2.0
// Thousands of followers of one coordinator: real connections, one process for all followers.
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/crowd.hpp"
#include "apps/muster-bench/series.hpp"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace muster::bench {
namespace {

double milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// One run fills a row of both tables.
void measure_row(Table& times, Table& idle, std::size_t nodes, const Effort& effort) {
  const auto name = fmt::format("{} nodes", nodes);

  struct Figure {
    Table* table;
    std::function<double(const Crowd&)> of;
  };

  const std::vector<Figure> figures{
      {&times, [](const Crowd& crowd) { return milliseconds(crowd.joined); }},
      {&times, [](const Crowd& crowd) { return milliseconds(crowd.started); }},
      {&times, [](const Crowd& crowd) { return milliseconds(crowd.regrouped); }},
      {&idle, [](const Crowd& crowd) { return crowd.idle_share * 100; }},
      {&idle, [](const Crowd& crowd) { return crowd.bytes_per_node_second; }},
      {&idle, [](const Crowd& crowd) { return crowd.messages_per_node; }}};
  auto& time_row = times.add_row(name);
  auto& idle_row = idle.add_row(name);
  std::vector<Cell*> cells;
  for (auto& cell : time_row.cells) {
    cells.push_back(&cell);
  }
  for (auto& cell : idle_row.cells) {
    cells.push_back(&cell);
  }
  for (int round = 0; round < (nodes > 1000 ? 1 : effort.slow_rounds); ++round) {
    CrowdPlan plan;
    plan.nodes = nodes;
    const auto crowd = measure_crowd(plan);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (crowd) {
        cells[i]->samples.push_back(figures[i].of(*crowd));
      } else {
        cells[i]->missing = "failed";
      }
    }
    if (!crowd) {
      fmt::print(stderr, "    {}: {}\n", name, crowd.error().message);
    }
  }
}

}  // namespace

std::vector<Table> measure_crowds(const Peers& /*peers*/, const Effort& effort) {
  auto times = Table::of("crowd",
                         "Many followers of one coordinator (real connections)",
                         "ms",
                         {"all joined", "all started", "regrouped after one loss"});
  auto idle = Table::of("crowd-idle",
                        "The same while nothing happens",
                        "see columns",
                        {"% of a core", "bytes/s each", "messages each to form"});
  fmt::print(stderr, "  {}\n", times.title);
  for (const std::size_t nodes : {std::size_t{1000}, effort.storm}) {
    measure_row(times, idle, nodes, effort);
  }
  return {times, idle};
}

}  // namespace muster::bench
