// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/scale.hpp"

#include "sim/nodes/nodes_world.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <ctime>

namespace muster::sim {
namespace {

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

// Runs until `count` nodes run in one round. False if they do not within a minute.
bool run_until_all_run(NodesWorld& world, std::uint64_t round, std::uint32_t count) {
  const VirtualTime limit = world.now() + std::chrono::minutes(1);
  while (world.now() < limit && world.run_next()) {
    const auto& running = world.checkers().running();
    if (running.size() == 1 && running.front().first.number == round &&
        running.front().second == count) {
      return true;
    }
  }
  return false;
}

double milliseconds_of(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Runs until the ranks of all nodes work in an epoch after this one. False if they do not within a
// minute.
bool run_until_all_work(NodesWorld& world, std::uint64_t after) {
  const auto works = [after](const Agent& agent) {
    const Workers& workers = agent.workers;
    return workers.lacking == 0 && workers.epoch > after && workers.entered == workers.epoch;
  };
  const VirtualTime limit = world.now() + std::chrono::minutes(1);
  while (world.now() < limit && world.checkers().problem().empty()) {
    world.run_until(world.now() + std::chrono::microseconds(100));
    if (std::ranges::all_of(world.agents(), works)) {
      return true;
    }
  }
  return false;
}

// Replaces one rank while the others run.
bool measure_mend(std::uint32_t nodes) {
  NodesOptions options = quiet_options(nodes);
  options.mends = true;
  Trace trace;
  NodesWorld world(options, 1, trace);
  world.calm();
  for (std::uint32_t place = 0; place < nodes; ++place) {
    world.start(place);
  }
  if (!run_until_all_work(world, 0)) {
    return false;
  }
  const double start = cpu_seconds();
  const VirtualTime failed_at = world.now();
  const std::uint64_t messages = world.network().sent();
  world.fail_worker(nodes / 2);
  if (!run_until_all_work(world, world.agents().front().workers.epoch)) {
    return false;
  }
  fmt::print("mend_ms={:.1f} mend_messages_per_node={:.2f} mend_cpu_ms={:.1f}\n",
             milliseconds_of(world.now() - failed_at),
             static_cast<double>(world.network().sent() - messages) / nodes,
             (cpu_seconds() - start) * 1e3);
  return true;
}

}  // namespace

int measure_scale(std::uint32_t nodes) {
  const NodesOptions options = quiet_options(nodes);
  Trace trace;
  NodesWorld world(options, 1, trace);
  const double start = cpu_seconds();
  for (std::uint32_t place = 0; place < nodes; ++place) {
    world.start(place);
  }
  if (!run_until_all_run(world, 1, nodes)) {
    fmt::print("{} nodes did not form: {}\n", nodes, world.checkers().problem());
    return 1;
  }
  const double formed = cpu_seconds();
  const VirtualTime formed_at = world.now();
  const std::uint64_t form_messages = world.network().sent();
  const std::uint64_t form_events = world.events();
  world.kill_agent(nodes / 2);
  if (!run_until_all_run(world, 2, nodes - 1)) {
    fmt::print("{} nodes did not form again: {}\n", nodes, world.checkers().problem());
    return 1;
  }
  const double again = cpu_seconds();
  fmt::print(
      "nodes={} form_ms={:.1f} form_messages_per_node={:.2f} form_events={} "
      "form_cpu_ms={:.1f} regroup_ms={:.1f} regroup_messages_per_node={:.2f} "
      "regroup_events={} regroup_cpu_ms={:.1f} ",
      nodes,
      milliseconds_of(formed_at.time_since_epoch()),
      static_cast<double>(form_messages) / nodes,
      form_events,
      (formed - start) * 1e3,
      milliseconds_of(world.now() - formed_at),
      static_cast<double>(world.network().sent() - form_messages) / nodes,
      world.events() - form_events,
      (again - formed) * 1e3);
  if (!measure_mend(nodes)) {
    fmt::print("{} nodes did not replace a rank\n", nodes);
    return 1;
  }
  return 0;
}

}  // namespace muster::sim
