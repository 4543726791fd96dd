// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/reboots.hpp"

#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace muster::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

NodesOptions reboot_options(std::uint32_t nodes, Random& random) {
  NodesOptions options = quiet_options(nodes);
  options.min = static_cast<std::int32_t>(random.between(1, nodes));
  options.endpoints = static_cast<int>(random.between(1, std::min<std::int64_t>(nodes, 3)));
  options.disks_percent = 100;
  options.shared_home = random.chance(30);
  return options;
}

// Runs until a round of all nodes runs.
bool run_until_all_run(NodesWorld& world, std::uint32_t nodes, Duration within) {
  const VirtualTime limit = world.now() + within;
  const auto all_run = [&] {
    const auto& running = world.checkers().running();
    return running.size() == 1 && running.front().second == nodes;
  };
  while (!all_run() && world.now() < limit && world.run_next()) {
  }
  return all_run();
}

// Reboots some machines, now and then all, at nearly the same time. Returns once the last one is
// back.
void reboot_some(NodesWorld& world, std::uint32_t nodes, Random& random) {
  const auto share = static_cast<int>(random.between(1, 4) * 25);
  const auto one = random.between(0, nodes - 1);
  const bool promptly = random.chance(50);
  Duration last{};
  for (std::uint32_t machine = 0; machine < nodes; ++machine) {
    if (machine != one && !random.chance(share)) {
      continue;
    }
    world.run_until(world.now() + Duration(random.between(0, 5'000'000)));
    world.lose_machine(machine);
    const Duration down = milliseconds(random.between(100, promptly ? 8'000 : 60'000));
    world.post(down, Kind::boot, machine);
    world.post(down + milliseconds(1), Kind::start_place, machine);
    last = std::max(last, down + milliseconds(2));
  }
  world.run_until(world.now() + last);
}

}  // namespace

NodesReport run_reboots(std::uint32_t nodes, Random& random, Trace& trace) {
  const NodesOptions options = reboot_options(nodes, random);
  NodesWorld world(options, random.next(), trace);
  world.note("-", '!', options.describe());
  for (std::uint32_t place = 0; place < nodes; ++place) {
    world.start(place);
  }
  if (!run_until_all_run(world, nodes, options.last_call + seconds(10))) {
    world.complain("the first round of all nodes did not form");
  }
  for (int time = 0; time < 3 && world.checkers().problem().empty(); ++time) {
    reboot_some(world, nodes, random);
    if (!run_until_all_run(world, nodes, options.lease)) {
      world.complain(fmt::format("{} nodes do not run within a lease of the last boot", nodes));
    }
    world.run_until(world.now() + Duration(random.between(0, options.lease.count() * 2)));
  }
  NodesReport report;
  report.problem = world.checkers().problem();
  report.trace_hash = trace.hash;
  report.events = world.events();
  report.rounds = world.checkers().rounds();
  report.messages = world.network().sent();
  report.converged = report.problem.empty();
  return report;
}

}  // namespace muster::sim
