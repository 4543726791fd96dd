// SPDX-License-Identifier: Apache-2.0
// The parameters that a seed gives to a multi-node world: the job, the network, and the kinds and
// rates of faults. Most seeds disable whole kinds, so that rare combinations occur. Value type.
#pragma once

#include "base/time.hpp"
#include "sim/random.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace muster::sim {

enum class Fault : std::uint8_t {
  kill_agent,      // SIGKILL: the kernel closes the agent's sockets
  lose_machine,    // the machine loses power; it returns without its state, or never
  freeze_agent,    // SIGSTOP, or a very busy machine; guard and workers keep running
  freeze_machine,  // everything on it stops
  cut,             // some machines cannot reach the others
  cut_one_way,
  reset,       // resets one connection
  stall,       // stalls one direction of one connection
  black_hole,  // a connection that delivers nothing any more
  leave,       // SIGTERM to an agent
  join,        // an additional node, or one that had left
  fail,        // a worker fails, in addition to the failures planned for the round
  stop_guard,  // SIGSTOP, repeatedly, usually while its agent is frozen
  kill_guard,  // SIGKILL, usually while its agent is frozen
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
  int disks_percent = 0;     // nodes that record their promises
  int torn_percent = 0;      // files destroyed when power is lost during a write
  bool shared_home = false;  // all nodes have one home and one host name
  Duration disk_slowest = std::chrono::milliseconds(2);  // until a record is on disk
  Duration endpoint_taken{};                             // how long another program has its port
  bool ranked = false;                                   // every node requests its rank

  // machines and network
  int agents_per_machine = 1;
  Duration latency_max = std::chrono::milliseconds(1);
  std::int64_t ppm_max = 0;
  Duration tcp_timeout{};
  int dial_lost_percent = 0;
  int dial_slow_percent = 0;
  int late_percent = 0;  // nodes that start late
  Duration start_spread{};
  int stranger_percent = 0;  // agents started with a different command line

  // workers
  bool blames = false;             // failures may have the node as their reason
  Duration cool_down{};            // 0 if no spare takes the place of a node
  int round_fails_percent = 0;     // rounds in which a worker fails on its own
  bool fails_at_start = false;     // the program fails the same way in every round
  int round_finishes_percent = 0;  // rounds in which all workers succeed
  int cascade_percent = 0;         // peers of dead workers that fail too
  int stubborn_percent = 0;        // workers that exit only after their grace period
  Duration grace = std::chrono::seconds(1);
  int start_lost_percent = 0;  // connections reset just as Start is sent
  int mend_lost_percent = 0;   // the same for Mend
  int store_fails_percent = 0;
  int store_slow_percent = 0;

  // faults
  int faults = 0;
  std::array<int, kFaultKinds> weights{};
  Duration trouble{};             // length of the fault period
  int lost_for_good_percent = 0;  // machines that never regain power

  bool bytes = false;     // level B
  bool hangs = false;     // some nodes see no progress
  bool waits = false;     // all nodes report how long their workers wait
  bool preempts = false;  // a scheduler announces that it will stop the job
  bool mends = false;     // failed ranks are replaced while the others run (--restart=rank)
  bool calm_network = false;

  [[nodiscard]] bool only_workers_fail() const;
  [[nodiscard]] std::string describe() const;
};

// Ranks fail often and are replaced.
void use_mends(NodesOptions& options);

[[nodiscard]] NodesOptions nodes_options(std::uint32_t nodes, Random& random);

// No faults and no randomness: for transcripts and scale measurements.
[[nodiscard]] NodesOptions quiet_options(std::uint32_t nodes);

}  // namespace muster::sim
