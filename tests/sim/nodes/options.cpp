// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace muster::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

void choose_job(NodesOptions& options, Random& random) {
  const auto nodes = static_cast<std::int64_t>(options.nodes);
  static constexpr std::array kLeases{seconds(2), seconds(9), seconds(9), seconds(30)};
  options.lease = kLeases.at(static_cast<std::size_t>(random.between(0, 3)));
  // Some places are left for spares.
  options.max =
      static_cast<std::int32_t>(random.chance(60) ? nodes : random.between((nodes + 1) / 2, nodes));
  options.min =
      static_cast<std::int32_t>(random.chance(20) ? options.max : random.between(1, options.max));
  options.max_restarts = static_cast<std::int32_t>(random.chance(30) ? 0 : random.between(1, 8));
  // Longer than a lease: see Faults::may_found for the excluded case.
  options.last_call = options.lease * random.between(2, 4);
  options.join_timeout = options.lease * (random.chance(90) ? 1000 : random.between(5, 40));
  if (random.chance(15)) {
    options.join_delay.reset();
  } else if (random.chance(15)) {
    options.join_delay = options.lease * random.between(1, 20) / 10;
  }
  options.endpoints = static_cast<int>(random.chance(60) ? 1 : random.between(2, 3));
  options.ranked = random.chance(10);
}

void choose_machines(NodesOptions& options, Random& random) {
  options.agents_per_machine = static_cast<int>(random.chance(80) ? 1 : random.between(2, 4));
  options.latency_max = random.chance(80) ? microseconds(random.between(60, 3000))
                                          : microseconds(random.between(3000, 60'000));
  options.ppm_max = random.chance(30) ? 0 : 200;
  options.tcp_timeout = random.chance(50) ? Duration{} : options.lease * random.between(2, 40) / 10;
  options.dial_lost_percent = static_cast<int>(random.chance(70) ? 0 : random.between(1, 40));
  options.dial_slow_percent = static_cast<int>(random.chance(70) ? 0 : random.between(1, 40));
  options.stranger_percent = random.chance(90) ? 0 : 5;
  options.late_percent = static_cast<int>(random.chance(50) ? 0 : random.between(1, 50));
  options.start_spread =
      random.chance(50) ? Duration{} : options.lease * random.between(1, 20) / 10;
}

void choose_workers(NodesOptions& options, Random& random) {
  const auto sometimes = [&](std::int64_t max) {
    return static_cast<int>(random.chance(50) ? 0 : random.between(1, max));
  };
  options.round_fails_percent = sometimes(90);
  options.round_finishes_percent = sometimes(10);
  options.cascade_percent = sometimes(100);
  options.stubborn_percent = sometimes(20);
  options.grace = milliseconds(random.between(0, 5000));
  options.start_lost_percent = random.chance(90) ? 0 : 2;
  options.store_fails_percent = random.chance(80) ? 0 : 10;
  options.store_slow_percent = sometimes(50);
}

void choose_faults(NodesOptions& options, Random& random) {
  options.trouble = options.lease * random.between(6, 24);
  if (random.chance(10)) {
    return;  // only workers fail
  }
  options.faults =
      static_cast<int>(random.chance(30) ? random.between(1, 4) : random.between(4, 40));
  const auto guards = static_cast<std::size_t>(Fault::stop_guard);
  for (std::size_t kind = 0; kind < guards; ++kind) {
    options.weights.at(kind) = static_cast<int>(random.chance(60) ? 0 : random.between(1, 10));
  }
  options.lost_for_good_percent = random.chance(70) ? 0 : 50;
  // A separate sequence, so that seeds without these faults stay the same as before they existed.
  Random apart = random;
  Random of_guards(apart.next() ^ 0x96a8d);
  for (std::size_t kind = guards; kind < kFaultKinds; ++kind) {
    options.weights.at(kind) =
        static_cast<int>(of_guards.chance(80) ? 0 : of_guards.between(1, 10));
  }
}

}  // namespace

NodesOptions nodes_options(std::uint32_t nodes, Random& random) {
  NodesOptions options;
  options.nodes = nodes;
  choose_job(options, random);
  choose_machines(options, random);
  choose_workers(options, random);
  choose_faults(options, random);
  // Separate sequences, as for guards.
  Random apart = random;
  options.fails_at_start = Random(apart.next() ^ 0x57a27).chance(3);
  Random of_endpoint(apart.next() ^ 0xe4d);
  if (of_endpoint.chance(10)) {
    options.endpoint_taken = options.lease * of_endpoint.between(1, 40) / 10;
  }
  Random of_disks(apart.next() ^ 0xd15c);
  if (of_disks.chance(50)) {
    options.disks_percent = of_disks.chance(70) ? 100 : 50;
    options.torn_percent = of_disks.chance(30) ? 0 : 90;
    const Duration slow = std::min<Duration>(options.lease / 4, std::chrono::milliseconds(300));
    options.disk_slowest = of_disks.chance(70) ? options.disk_slowest : slow;
  }
  options.shared_home = options.disks_percent == 100 && Random(apart.next() ^ 0x503e).chance(30);
  Random of_blame(apart.next() ^ 0xb1a3e);
  options.blames = options.max_restarts > 0 && of_blame.chance(30);
  options.cool_down = options.lease * of_blame.between(4, 100);
  if (options.blames && nodes > 1) {  // with a spare, and with failures
    options.max = std::min(options.max, static_cast<std::int32_t>(nodes) - 1);
    options.min = std::min(options.min, options.max);
    options.round_fails_percent = std::max(options.round_fails_percent, 70);
    options.max_restarts = std::max(options.max_restarts, 5);
  }
  options.calm_network = options.only_workers_fail();
  return options;
}

void use_mends(NodesOptions& options) {
  options.mends = true;
  options.max_restarts = options.max_restarts > 0 ? 1000 : 1;
  options.fails_at_start = false;
  options.round_fails_percent = std::max(options.round_fails_percent, 70);
  options.cascade_percent = std::min(options.cascade_percent, 30);
  options.round_finishes_percent *= 3;
  options.mend_lost_percent = 5;
  options.calm_network = false;
}

NodesOptions quiet_options(std::uint32_t nodes) {
  NodesOptions options;
  options.nodes = nodes;
  options.min = static_cast<std::int32_t>(std::max<std::uint32_t>(1, nodes / 2));
  options.max = static_cast<std::int32_t>(nodes);
  options.max_restarts = 3;
  options.latency_max = microseconds(60);
  return options;
}

bool NodesOptions::only_workers_fail() const {
  return faults == 0 && late_percent == 0 && start_spread == Duration{} &&
         endpoint_taken == Duration{} && dial_lost_percent == 0 && dial_slow_percent == 0 &&
         store_fails_percent == 0 && start_lost_percent == 0;
}

std::string NodesOptions::describe() const {
  return fmt::format(
      "nodes={} min={} max={} max_restarts={} lease={} last_call={} join_timeout={} join_delay={} "
      "endpoints={} taken={} disks={}% torn={}% disk_slowest={} shared_home={} ranked={} "
      "per_machine={} "
      "latency={} ppm={} "
      "tcp_timeout={} "
      "dial_lost={}% "
      "dial_slow={}% late={}% spread={} fails={}% at_start={} finishes={}% cascade={}% "
      "stubborn={}% grace={} "
      "store_fails={}% store_slow={}% start_lost={}% strangers={}% faults={} weights={} trouble={} "
      "blames={} cool_down={} lost_for_good={}% bytes={}",
      nodes,
      min,
      max,
      max_restarts,
      muster::describe(lease),
      muster::describe(last_call),
      muster::describe(join_timeout),
      join_delay ? muster::describe(*join_delay) : "none",
      endpoints,
      muster::describe(endpoint_taken),
      disks_percent,
      torn_percent,
      muster::describe(disk_slowest),
      shared_home,
      ranked,
      agents_per_machine,
      muster::describe(latency_max),
      ppm_max,
      muster::describe(tcp_timeout),
      dial_lost_percent,
      dial_slow_percent,
      late_percent,
      muster::describe(start_spread),
      round_fails_percent,
      fails_at_start,
      round_finishes_percent,
      cascade_percent,
      stubborn_percent,
      muster::describe(grace),
      store_fails_percent,
      store_slow_percent,
      start_lost_percent,
      stranger_percent,
      faults,
      fmt::join(weights, ","),
      muster::describe(trouble),
      blames,
      muster::describe(cool_down),
      lost_for_good_percent,
      bytes);
}

}  // namespace muster::sim
