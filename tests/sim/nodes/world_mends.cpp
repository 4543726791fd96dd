// SPDX-License-Identifier: Apache-2.0
// Ranks that are replaced while the round's other workers continue to run (--mends). Each node has
// one rank. A failed rank is requested to be replaced; the agent then either replaces it, or
// restarts all workers. All nodes hear the same mends in the same order, or a later round.
#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Counted from the start of the calm period.
constexpr Duration kMendedWithin = seconds(5);

constexpr int kObstaclePercent = 2;

}  // namespace

// The ranks of this node enter the training function, or return to it after a mend.
void NodesWorld::expect_entry(std::uint32_t number) {
  if (options_.mends) {
    Workers& workers = agents_[number].workers;
    const auto most = milliseconds(calm_ ? 20 : random_.chance(1) ? 5000 : 200);
    const Duration delay = between(microseconds(100), most);
    workers.enters_at = queue_.now() + delay;
    queue_.after(delay,
                 Happening{Kind::entry_due, 0, number, workers.generation, nullptr, nullptr});
  }
}

void NodesWorld::on_entry(std::uint32_t number) {
  const Workers& workers = agents_[number].workers;
  if (lives(agents_[number]) && workers.alive && workers.lacking == 0 &&
      queue_.now() >= workers.enters_at) {
    agents_[number].workers.entered = workers.epoch;
    to_agent(number, MendedHere{workers.epoch});
  }
}

// Instead of a failure, the agent reports that a rank is lacking.
void NodesWorld::lack(std::uint32_t number, const Failed& cause) {
  Workers& workers = agents_[number].workers;
  if (workers.lacking != 0) {
    return;
  }
  workers.lacking = ++workers.requests;
  LackingHere lacks{.message = {},
                    .seen_at = machines_[agents_[number].machine].clock.local(now())};
  lacks.message.number = workers.lacking;
  lacks.message.ranks = {workers.group_rank};
  lacks.message.tells_step = true;
  lacks.message.step = static_cast<std::uint64_t>(queue_.now().time_since_epoch().count());
  lacks.message.cause = cause;
  to_agent(number, std::move(lacks));
}

void NodesWorld::run_mend(std::uint32_t number, const RunMend& run) {
  Workers& workers = agents_[number].workers;
  if (!workers.alive) {
    return;  // its agent has not noticed that yet
  }
  checkers_.mended(workers.round->id, run);
  checkers_.worker_failed(workers.round->id, queue_.now());
  if (run.mends.epoch < workers.epoch || (run.mends.epoch == workers.epoch && run.number == 0)) {
    complain("epochs do not increase on a node");
  }
  if (run.number != 0 && run.number != workers.lacking) {
    complain("a node was granted a mend that it had not requested");
  }
  workers.epoch = run.mends.epoch;
  if (run.number != 0) {
    workers.lacking = 0;
    workers.failed = false;
  }
  if (!calm_ && random_.chance(kObstaclePercent)) {
    LackingHere cannot{.message = {}, .seen_at = {}};
    cannot.message.obstacle = "simulated: a rank has finished";
    to_agent(number, std::move(cannot));
    stop_workers(number, false);
    return;
  }
  expect_entry(number);
  if (!calm_ && random_.chance(1)) {
    finish_workers(number, between(Duration{}, milliseconds(1)));  // they finish just now
  }
}

void NodesWorld::refuse_mend(std::uint32_t number, const RefuseMend& refused) {
  Workers& workers = agents_[number].workers;
  if (refused.number != workers.lacking || workers.lacking == 0) {
    complain("a node was refused a mend that it had not requested");
    return;
  }
  workers.lacking = 0;
  report_failure(number, 1);
}

// In the calm period a rank fails, and all members of the running round continue in one new epoch.
void NodesWorld::check_mends(const Round& round) {
  const auto runs = [&](const Agent& agent) {
    return lives(agent) && agent.workers.alive && !agent.workers.stopping &&
           agent.workers.round->id == round.id;
  };
  const auto all_run = [&] {
    return std::cmp_equal(std::ranges::count_if(agents_, runs), round.members.size());
  };
  const auto all_entered = [&](std::uint64_t after) {
    std::uint64_t epoch = 0;
    return std::ranges::all_of(agents_, [&](const Agent& agent) {
      const Workers& workers = agent.workers;
      epoch = runs(agent) && epoch == 0 ? workers.epoch : epoch;
      return !runs(agent) || (workers.lacking == 0 && workers.entered == workers.epoch &&
                              workers.epoch > after && workers.epoch == epoch);
    });
  };
  run_until(now() + kMendedWithin);
  if (!all_run() || !checkers_.problem().empty()) {
    return;  // another round has begun, or some have finished
  }
  if (!all_entered(0)) {
    complain("a mend does not end");
    return;
  }
  const auto victim = std::ranges::find_if(agents_, runs);
  const std::uint64_t before = victim->workers.epoch;
  on_worker_fails(static_cast<std::uint32_t>(victim - agents_.begin()));
  run_until(now() + kMendedWithin);
  const bool is_alone = round.members.size() == 1;  // no other rank has the state
  if (checkers_.problem().empty() && all_run() && !is_alone && !all_entered(before)) {
    complain("a rank was not replaced");
  }
}

}  // namespace muster::sim
