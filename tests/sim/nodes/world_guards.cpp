// SPDX-License-Identifier: Apache-2.0
// The guard of each agent: it kills workers whose lease has expired, and those of a dead agent. It
// may be stopped or killed (lib/process/README.md, "Two processes, so that no worker survives").
#include "base/mark.hpp"
#include "base/mutate.hpp"
#include "sim/nodes/nodes_world.hpp"

namespace muster::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;

void NodesWorld::on_guard(std::uint32_t number) {
  Agent& agent = agents_[number];
  agent.guard_posted = false;
  if (!agent.process || !agent.workers.alive || !agent.guard_at || agent.guard == Guard::dead) {
    return;
  }
  if (queue_.now() < *agent.guard_at) {
    agent.guard_posted = true;
    queue_.at(*agent.guard_at, Happening{Kind::guard, 0, number, 0, nullptr, nullptr});
    return;
  }
  if (agent.guard == Guard::stopped && queue_.now() != next_wake(agent)) {
    MUSTER_MARK("the lease of a node ends while its guard is stopped");
    excuse(number);
    agent.guard_posted = true;
    queue_.at(next_wake(agent), Happening{Kind::guard, 0, number, 0, nullptr, nullptr});
    return;
  }
  queue_.after(between(microseconds(50), milliseconds(2)),
               Happening{Kind::workers_die, 1, number, agent.workers.generation, nullptr, nullptr});
}

// The next time at which a stopped guard's own timer continues it.
VirtualTime NodesWorld::next_wake(const Agent& agent) const {
  const Duration interval =
      guard_wakes_within(options_.lease) * (MUSTER_MUTATE("guard wakes too seldom") ? 8 : 1);
  if (queue_.now() <= agent.guard_wakes) {
    return agent.guard_wakes;
  }
  const Duration over = (queue_.now() - agent.guard_wakes) % interval;
  return over == Duration{} ? queue_.now() : queue_.now() + interval - over;
}

// From now on its workers may run alongside another round for a limited time.
void NodesWorld::excuse(std::uint32_t number) {
  const Duration limit = guard_wakes_within(options_.lease) + kThawGrace;
  agents_[number].excused_until = queue_.now() + limit;
  count(number, false);
  post(limit, Kind::thaw_over, number);
}

void NodesWorld::stop_guard(std::uint32_t number, Duration length) {
  Agent& agent = agents_[number];
  if (!agent.process || agent.guard != Guard::runs) {
    return;
  }
  note(agent.label, '!', "its guard is stopped for " + muster::describe(length));
  agent.guard = Guard::stopped;
  agent.guard_wakes = queue_.now() + between(Duration{}, guard_wakes_within(options_.lease));
  disturbances_.note(now(), length);
  post(length, Kind::guard_goes_on, number);
}

void NodesWorld::let_guard_run(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (agent.guard == Guard::stopped) {
    note(agent.label, '!', "its guard goes on");
    agent.guard = Guard::runs;
  }
}

// Its death continues a stopped agent, which then reads end-of-file from the link between them.
void NodesWorld::kill_guard(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (!lives(agent) || agent.guard == Guard::dead) {
    return;
  }
  note(agent.label, '!', "its guard is killed");
  agent.guard = Guard::dead;
  if (MUSTER_MUTATE("agent outlives its guard")) {
    return;
  }
  if (agent.frozen) {
    MUSTER_MARK("the guard of a stopped agent dies");
  }
  go_on(number);
  post(between(microseconds(10), milliseconds(2)), Kind::orphaned, number);
}

void NodesWorld::on_orphaned(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (!lives(agent)) {
    return;
  }
  if (!agent.workers.finished) {
    checkers_.node_gone(agent.info.id, queue_.now());
  }
  end(number, Ending::orphaned, "its guard is dead");
}

// Time that a guard needs to kill all workers of its dead agent. Without a guard the time is zero:
// the agent has killed them, or its death has.
Duration NodesWorld::sweep_time(const Agent& agent) {
  if (agent.guard == Guard::dead) {
    return Duration{};
  }
  if (agent.guard == Guard::stopped) {
    return next_wake(agent) - queue_.now() + between(Duration{}, milliseconds(5));
  }
  const bool slow = random_.chance(3);  // a worker that the kernel cannot kill at once
  return agent.workers.alive || random_.chance(50)
             ? between(Duration{}, slow ? milliseconds(1500) : milliseconds(5))
             : Duration{};
}

}  // namespace muster::sim
