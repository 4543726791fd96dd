// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/faults.hpp"

#include <algorithm>
#include <numeric>

namespace muster::sim {

using std::chrono::milliseconds;

namespace {

// Fresh nodes that no other node finds form a round faster than a guard kills the workers of a dead
// agent. So a restart waits for the previous launcher to exit, including its guard, as a service
// manager does (rendezvous/README.md, "Known limits"). This applies to a founder that can form a
// round alone, and to all nodes if no live node knows a round.
constexpr std::int32_t kFoundsAlone = 1;
constexpr Duration kSweepMost = milliseconds(2000);

}  // namespace

Faults::Faults(NodesWorld& world, const NodesOptions& options, std::uint64_t seed)
    : world_(world), options_(options), random_(seed ^ 0x5eed) {}

Duration Faults::between(Duration low, Duration high) {
  return Duration(random_.between(low.count(), high.count()));
}

// Length of a freeze, stall or cut: usually near the times at which leases matter.
Duration Faults::length() {
  return random_.chance(30) ? between(milliseconds(1), options_.lease / 4)
                            : between(options_.lease / 4, options_.lease * 4);
}

void Faults::start_all() {
  for (std::uint32_t place = 0; place < options_.nodes; ++place) {
    const bool late = place != 0 && random_.chance(options_.late_percent);
    const Duration delay =
        late ? between(Duration{}, options_.trouble) : between(Duration{}, options_.start_spread);
    world_.post(delay, Kind::start_place, place);
  }
}

void Faults::play() {
  std::vector<Duration> times;
  for (int i = 0; i < options_.faults; ++i) {
    times.push_back(between(Duration{}, options_.trouble));
    if (i > 0 && random_.chance(30)) {  // close to the previous one
      times.back() = times[times.size() - 2] + between(Duration{}, options_.lease / 20);
    }
  }
  std::ranges::sort(times);
  for (const Duration time : times) {
    world_.run_until(VirtualTime{} + time);
    if (!world_.checkers().problem().empty()) {
      return;
    }
    strike();
  }
  world_.run_until(VirtualTime{} + options_.trouble);
}

void Faults::strike() {
  const int sum = std::accumulate(options_.weights.begin(), options_.weights.end(), 0);
  if (sum == 0) {
    return;
  }
  auto left = random_.between(1, sum);
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
    left -= options_.weights.at(kind);
    if (left <= 0) {
      strike_with(static_cast<Fault>(kind));
      return;
    }
  }
}

std::uint32_t Faults::some_agent() {
  std::vector<std::uint32_t> living;
  for (const Place& place : world_.places()) {
    if (place.agent != kNobody && world_.lives(world_.agents()[place.agent])) {
      living.push_back(place.agent);
    }
  }
  if (living.empty()) {
    return kNobody;
  }
  // The first nodes have the low ranks and the endpoints, so they are hit more often.
  const auto last = static_cast<std::int64_t>(living.size()) - 1;
  const auto most = random_.chance(40) ? std::min<std::int64_t>(last, 2) : last;
  return living[static_cast<std::size_t>(random_.between(0, most))];
}

void Faults::strike_with(Fault fault) {
  const std::uint32_t agent = some_agent();
  if (agent == kNobody) {
    join();
    return;
  }
  // See may_found.
  const bool blind = founder_is_blank();
  switch (fault) {
    case Fault::kill_agent:
      kill_agent();
      break;
    case Fault::lose_machine:
      lose_machine();
      break;
    case Fault::freeze_agent:
      if (!blind) {
        world_.freeze_agent(agent, length());
      }
      break;
    case Fault::freeze_machine:
      if (!blind) {
        world_.freeze_machine(world_.agents()[agent].machine, length());
      }
      break;
    case Fault::cut:
    case Fault::cut_one_way:
      if (!blind) {
        cut(fault == Fault::cut_one_way);
      }
      break;
    case Fault::reset:
      world_.hurt(agent, 0, Duration{});
      break;
    case Fault::stall:
      world_.hurt(agent, 1, length());
      break;
    case Fault::black_hole:
      world_.hurt(agent, 2, std::chrono::hours(1));
      break;
    case Fault::leave:
      world_.leave(agent);
      break;
    case Fault::join:
      join();
      break;
    case Fault::fail:
      world_.fail_worker(agent);
      break;
    case Fault::stop_guard:
    case Fault::kill_guard:
      if (!blind) {
        strike_guard(agent, fault == Fault::kill_guard);
      }
      break;
  }
}

void Faults::strike_guard(std::uint32_t agent, bool kill) {
  const Duration time = length();
  if (random_.chance(80)) {
    world_.freeze_agent(agent, time);
  }
  if (kill) {
    world_.post(between(Duration{}, time), Kind::guard_dies, agent);
  } else {
    world_.stop_guard(agent, time);
  }
}

void Faults::kill_agent() {
  const std::int64_t count = random_.chance(80) ? 1 : random_.between(2, 4);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t agent = some_agent();
    if (agent == kNobody) {
      return;
    }
    const std::uint32_t place = world_.agents()[agent].place;
    world_.kill_agent(agent);
    if (random_.chance(50)) {
      start_when_allowed(place);
    }
  }
}

void Faults::lose_machine() {
  const std::uint32_t machine = world_.agents()[some_agent()].machine;
  world_.lose_machine(machine);
  if (random_.chance(options_.lost_for_good_percent)) {
    return;
  }
  const Duration down = length();
  world_.post(down, Kind::boot, machine);
  for (std::uint32_t place = 0; options_.disks_percent > 0 && place < options_.nodes; ++place) {
    // In a shared home, another agent may take the founder's record before the founder is back.
    const bool keeps_record = !options_.shared_home || machine != 0;
    if (world_.places()[place].machine == machine && keeps_record && remembers(place)) {
      world_.post(down + milliseconds(1), Kind::start_place, place);
    }
  }
}

void Faults::cut(bool one_way) {
  std::vector<std::uint8_t> inside(world_.machines().size());
  const int percent = static_cast<int>(random_.between(1, 4)) * 20;
  const bool one = random_.chance(40);
  for (std::uint8_t& machine : inside) {
    machine = !one && random_.chance(percent) ? 1 : 0;
  }
  if (one) {
    inside[world_.agents()[some_agent()].machine] = 1;
    if (random_.chance(50)) {  // selects the side of a one-way cut
      for (std::uint8_t& machine : inside) {
        machine ^= 1;
      }
    }
  }
  world_.cut(std::move(inside), one_way, length());
}

void Faults::join() {
  const auto first = static_cast<std::uint32_t>(random_.between(0, options_.nodes - 1));
  for (std::uint32_t i = 0; i < options_.nodes; ++i) {
    const std::uint32_t place = (first + i) % options_.nodes;
    const Place& there = world_.places()[place];
    if (there.agent == kNobody && world_.machines()[there.machine].power) {
      start_when_allowed(place);
      return;
    }
  }
}

void Faults::start_when_allowed(std::uint32_t place) {
  if (!world_.checkers().close() && may_found(place)) {
    const bool founds = world_.places()[place].machine == 0;
    const bool is_found = std::ranges::any_of(
        world_.agents(), [&](const Agent& agent) { return world_.knows_a_round(agent); });
    if (world_.is_sweeping() && (!is_found || (founds && options_.max <= kFoundsAlone))) {
      const Duration longest = kSweepMost + guard_wakes_within(options_.lease);  // of a stopped one
      world_.post(longest, Kind::start_place, place);
    } else if (founds || random_.chance(30)) {
      world_.start(place);
    } else {
      world_.post(between(Duration{}, options_.lease), Kind::start_place, place);
    }
  }
}

// The one case that is deliberately excluded: a restarted agent that owns the first endpoint has no
// memory. If it were cut off from the nodes that remember the job, it would found a second job with
// other fresh nodes (rendezvous/README.md, "Known limits"). So it is started only while nothing is
// cut, frozen or without power, or if no node remembers a round. While such a founder has met no
// other node, nothing is cut or frozen. The cores must ensure that the survivors find it before its
// last call expires: here the last call is at least two leases, and MAX fresh nodes cannot meet
// because survivors occupy places. A record without a running agent may also return.
bool Faults::may_found(std::uint32_t place) const {
  if (world_.places()[place].machine != 0 || !world_.is_any_round_known() || remembers(place)) {
    return true;
  }
  const std::size_t lives = static_cast<std::size_t>(std::ranges::count_if(
      world_.agents(), [&](const Agent& a) { return world_.knows_a_round(a); }));
  return world_.network().whole() && world_.awake() && !world_.is_record_away() &&
         options_.nodes - lives < static_cast<std::size_t>(options_.max);
}

// An agent that starts there now has the memory of the previous one.
bool Faults::remembers(std::uint32_t place) const {
  const std::uint32_t file = world_.free_file(place);
  return file != kNobody && world_.files()[file].content;
}

bool Faults::founder_is_blank() const {
  const std::uint32_t agent = world_.places()[0].agent;
  return world_.is_any_round_known() &&
         std::ranges::any_of(world_.agents(),
                             [&](const Agent& a) {
                               return world_.lives(a) && a.hosts && !a.met &&
                                      !world_.knows_a_round(a);
                             }) &&
         agent != kNobody;
}

void Faults::put_right() {
  world_.calm();
  for (std::uint32_t i = 0; i < world_.machines().size(); ++i) {
    if (!random_.chance(options_.lost_for_good_percent) || i == 0) {
      world_.boot(i);
    }
  }
  for (std::uint32_t place = 0; place < options_.nodes; ++place) {
    if (place == 0 || random_.chance(50)) {
      start_when_allowed(place);
    }
  }
}

}  // namespace muster::sim
