// SPDX-License-Identifier: Apache-2.0
// What a seed makes of a world of many nodes: the job, the network, and which kinds of trouble come
// how often. Whole kinds are off in most seeds, so that rare combinations happen. Value type.
#pragma once

#include "base/time.hpp"
#include "sim/random.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace muster::sim {

enum class Fault : std::uint8_t {
  kill_agent,      // SIGKILL: its kernel closes its sockets
  lose_machine,    // power gone: silence; comes back empty, or never
  freeze_agent,    // SIGSTOP, or a very busy machine; its guard and its workers go on
  freeze_machine,  // everything on it stops
  cut,             // some machines cannot reach the others
  cut_one_way,
  reset,       // of one connection
  stall,       // of one direction of one connection
  black_hole,  // a connection over which nothing arrives any more
  leave,       // SIGTERM to an agent
  join,        // one more node, or one that had gone
  fail,        // of a worker, beside those that are planned for the round
  stop_guard,  // SIGSTOP, again and again, as a rule while its agent is frozen
  kill_guard,  // SIGKILL, as a rule while its agent is frozen
};

inline constexpr std::size_t kFaultKinds = 14;

struct NodesOptions {
  // the job
  std::uint32_t nodes = 8;
  std::int32_t min = 1;
  std::int32_t max = 8;
  std::int32_t max_restarts = 0;
  Duration lease = std::chrono::seconds(9);
  Duration last_call = std::chrono::seconds(30);
  Duration join_timeout = std::chrono::seconds(3600);
  std::optional<Duration> join_delay = Duration{};
  int endpoints = 1;
  int disks_percent = 0;  // nodes that record what they promise
  int torn_percent = 0;   // files that a loss of power destroys while they are written
  Duration disk_slowest = std::chrono::milliseconds(2);  // until a record is on disk
  Duration endpoint_taken{};                             // another program has its port for so long
  bool ranked = false;                                   // every node asks for its rank

  // machines and network
  int agents_per_machine = 1;
  Duration latency_max = std::chrono::milliseconds(1);
  std::int64_t ppm_max = 0;
  Duration tcp_timeout{};
  int dial_lost_percent = 0;
  int dial_slow_percent = 0;
  int late_percent = 0;  // nodes that come after the start
  Duration start_spread{};
  int stranger_percent = 0;  // agents that were started with another command line

  // workers
  int round_fails_percent = 0;     // rounds in which a worker fails by itself
  bool fails_at_start = false;     // the program does, in every round, in the same way
  int round_finishes_percent = 0;  // rounds in which all workers end well
  int cascade_percent = 0;         // peers of dead workers that fail too
  int stubborn_percent = 0;        // workers that end only when their time of grace is over
  Duration grace = std::chrono::seconds(1);
  int start_lost_percent = 0;  // connections that are reset just as the order to start is sent
  int store_fails_percent = 0;
  int store_slow_percent = 0;

  // faults
  int faults = 0;
  std::array<int, kFaultKinds> weights{};
  Duration trouble{};             // how long they come
  int lost_for_good_percent = 0;  // machines without power that stay so

  bool bytes = false;  // level B
  bool hangs = false;  // some nodes see no progress
  bool waits = false;  // all nodes tell how long their workers wait
  bool calm_network = false;

  [[nodiscard]] bool only_workers_fail() const;
  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] NodesOptions nodes_options(std::uint32_t nodes, Random& random);

// No faults, no chance: for transcripts and for measuring scale.
[[nodiscard]] NodesOptions quiet_options(std::uint32_t nodes);

}  // namespace muster::sim
