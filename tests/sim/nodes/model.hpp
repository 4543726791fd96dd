// SPDX-License-Identifier: Apache-2.0
// The parts of a simulated world besides its network: machines, places where agents may be
// restarted repeatedly, agents (one incarnation each) and their workers. Plain data;
// world_agents.cpp has their behaviour.
#pragma once

#include "rendezvous/round/node_core.hpp"
#include "sim/nodes/node_clock.hpp"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::sim {

// All worker processes of one node as a unit: alive while any of them is.
struct Workers {
  bool alive = false;
  bool stopping = false;
  bool finished = false;         // all of them exited successfully
  bool counted = false;          // the checkers count these workers as running
  bool failed = false;           // at least one of them failed
  std::uint64_t generation = 0;  // identifies events of an earlier set of workers
  RoundPtr round;
  std::int32_t group_rank = 0;
  VirtualTime since{};
  // --mends: the node's rank
  std::uint64_t epoch = 0;     // of the round, or of the last mend
  std::uint64_t entered = 0;   // the epoch in which the rank works
  VirtualTime enters_at{};     // when it enters the epoch
  std::uint64_t requests = 0;  // for a mend
  std::uint64_t lacking = 0;   // the number of the open request; 0 if the rank lives
};

// orphaned: its guard has died.
enum class Ending : std::uint8_t { none, finished, closed, failed, left, orphaned };

// stopped: runs only when its own timer continues it, as if it were stopped again each time
// (lib/process/README.md, "Two processes, so that no worker survives").
enum class Guard : std::uint8_t { runs, stopped, dead };

// Matches LeaseTimer::wake_interval. The maximum time that workers run past their lease while both
// agent and guard are stopped.
[[nodiscard]] constexpr Duration guard_wakes_within(Duration lease) {
  return lease / 8;
}

struct Agent {
  std::uint32_t place = 0;
  std::uint32_t machine = 0;
  NodeInfo info;
  std::string label;  // name of the agent in traces
  std::unique_ptr<NodeCore> core;
  bool process = true;    // false if dead or exited
  bool frozen = false;    // SIGSTOP
  bool hosts = false;     // it may found a job
  bool stranger = false;  // has another command line and must be refused
  bool rejoins = false;   // a spare took the place of its predecessor
  bool met = false;       // another node has welcomed it
  bool listener_known = false;
  Ending ending = Ending::none;
  VirtualTime ended_at{};
  std::optional<VirtualTime> killed_at;  // set if all other nodes ran the same round at that time
  VirtualTime swept_at{};
  std::string reason;  // reason for a failed ending
  std::optional<VirtualTime> armed;
  std::optional<VirtualTime> guard_at;  // its workers die at this time unless the lease is renewed
  bool guard_posted = false;
  Guard guard = Guard::runs;
  VirtualTime guard_wakes{};    // if stopped: the first of its periodic wakeups
  VirtualTime excused_until{};  // its workers do not count until then, as after a thaw
  Workers workers;
  std::uint32_t file = kNobody;  // its record, unless every one is locked
  std::deque<Memory> recording;  // records being written to disk
  RoundId recalled{};            // the last round that it or a previous agent started
  std::set<NodeId> formerly;     // agents for which it testifies
  RoundId inherited{};           // the last round in the record of those agents
  RoundId told;                  // the last round that it was told to run
  RoundId store_asked;
  RoundPtr proposed;       // the last proposal that it received
  RoundPtr proposed_base;  // the base of that proposal
  RoundPtr accepted;       // the last one that it accepted
  RoundPtr accepted_base;
  NodeId follows = 0;         // the node that welcomed it last
  VirtualTime heard{};        // last message from its coordinator
  bool out_of_touch = false;  // it was out of touch when the job was closed elsewhere
  std::size_t unchecked_steps = 0;
  std::set<std::string> verdicts;          // verdicts on hangs that it has received
  std::optional<std::uint64_t> step;       // at which its ranks wait after a notice of preemption
  std::optional<std::uint64_t> save_step;  // the one that it was told
  std::deque<NodeEvent> deferred;          // events to deliver when the agent continues
};

struct Place {
  std::uint32_t machine = 0;
  std::string name;
  std::int32_t node_rank = -1;
  std::uint32_t agent = kNobody;  // the live agent of this place
  std::uint32_t started = 0;
  bool has_disk = false;
  bool rejoins = false;  // the next agent does
};

// The record file of one place. If all places share a home and a host name, as some containers do,
// an agent takes any file that is not locked.
struct RecordFile {
  std::optional<Memory> content;
  std::uint32_t holder = kNobody;  // the agent that locks it, itself or through its guard
};

struct MachineState {
  std::string address;
  NodeClock clock;
  bool power = true;
  bool frozen = false;
  std::vector<Happening> held;  // its pending events until it continues
};

// The workers' behaviour in a round, decided when it first runs.
struct RoundPlan {
  std::int32_t failing = -1;  // group rank of the node whose worker fails
  Duration fails_after{};
  bool permanent = false;
  bool finishes = false;
  Duration finishes_after{};
};

}  // namespace muster::sim
