// SPDX-License-Identifier: Apache-2.0
// What a simulated world consists of, besides its network: machines, places at which an agent may
// be started again and again, agents (one incarnation each) and their workers. Plain data; the
// rules of their lives are in world_agents.cpp.
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

// All worker processes of one node, as one: alive while any of them is.
struct Workers {
  bool alive = false;
  bool stopping = false;
  bool finished = false;         // all ended well
  bool counted = false;          // by the checkers
  bool failed = false;           // one of them
  std::uint64_t generation = 0;  // tells events of an earlier set from those of this one
  RoundPtr round;
  std::int32_t group_rank = 0;
  VirtualTime since{};
};

// orphaned: its guard has died.
enum class Ending : std::uint8_t { none, finished, closed, failed, left, orphaned };

// Stopped: it runs only in the moments in which its own timer continues it, as if somebody stopped
// it again each time (lib/process/README.md, "Two processes, so that nothing survives").
enum class Guard : std::uint8_t { runs, stopped, dead };

// As LeaseTimer::wake_interval. So long may workers run on after their lease while both agent and
// guard are stopped.
[[nodiscard]] constexpr Duration guard_wakes_within(Duration lease) {
  return lease / 8;
}

struct Agent {
  std::uint32_t place = 0;
  std::uint32_t machine = 0;
  NodeInfo info;
  std::string label;  // in traces
  std::unique_ptr<NodeCore> core;
  bool process = true;    // false: dead, or has ended
  bool frozen = false;    // SIGSTOP
  bool hosts = false;     // was told that it may found
  bool stranger = false;  // has another command line: is to be refused
  bool met = false;       // some other node has welcomed it
  bool listener_known = false;
  Ending ending = Ending::none;
  VirtualTime ended_at{};
  std::optional<VirtualTime> killed_at;  // while all the others ran the same round
  VirtualTime swept_at{};
  std::string reason;  // of a failed ending
  std::optional<VirtualTime> armed;
  std::optional<VirtualTime> guard_at;  // its workers die then, unless the lease is renewed
  bool guard_posted = false;
  Guard guard = Guard::runs;
  VirtualTime guard_wakes{};    // stopped: at that time, and again and again after it
  VirtualTime excused_until{};  // until then its workers are not counted, as after a thaw
  Workers workers;
  bool records = false;          // its place has a disk, and no one before it holds the file
  std::deque<Memory> recording;  // on the way to the disk
  RoundId recalled{};            // that an agent before it was told to start
  std::set<NodeId> formerly;     // in whose name it testifies
  RoundId told;                  // the last round that it was told to run
  RoundId store_asked;
  RoundPtr proposed;       // the last proposal that it was given
  RoundPtr proposed_base;  // what that one rests on
  RoundPtr accepted;       // and the last that it accepted
  RoundPtr accepted_base;
  NodeId follows = 0;         // who welcomed it last
  VirtualTime heard{};        // its coordinator's last sign of life
  bool out_of_touch = false;  // when the job was closed elsewhere
  std::size_t unchecked_steps = 0;
  std::set<std::string> verdicts;  // on hangs, that it has heard
  std::deque<NodeEvent> deferred;  // what it will find when it goes on
};

struct Place {
  std::uint32_t machine = 0;
  std::string name;
  std::int32_t node_rank = -1;
  std::uint32_t agent = kNobody;  // the living one
  std::uint32_t started = 0;
  bool has_disk = false;
  std::optional<Memory> disk;
  std::uint32_t holder = kNobody;  // holds the file's lock, or its guard does
};

struct MachineState {
  std::string address;
  NodeClock clock;
  bool power = true;
  bool frozen = false;
  std::vector<Happening> held;  // what happens on it when it goes on
};

// What workers do in a round, decided when it is first run.
struct RoundPlan {
  std::int32_t failing = -1;  // group rank
  Duration fails_after{};
  bool permanent = false;
  bool finishes = false;
  Duration finishes_after{};
};

}  // namespace muster::sim
