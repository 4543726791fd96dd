// SPDX-License-Identifier: Apache-2.0
// The workers of one node, and the part of the agent that supervises them.
#include "sim/nodes/describe.hpp"
#include "sim/nodes/nodes_world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace muster::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

// How the agent learns that its workers have exited (Happening::side of Kind::noticed).
constexpr int kGone = 0;
constexpr int kFinished = 1;
constexpr int kFailed = 2;  // one has failed; the others keep running
constexpr int kKilled = 3;  // by the guard, while the agent was not looking

constexpr std::size_t kCascadeMax = 8;

constexpr int kKilledCode = 137;

// --mends: how often the rank of a node fails in a round, on those nodes where it does.
constexpr int kMendFailures = 3;

}  // namespace

RoundPlan& NodesWorld::plan_of(RoundId round, std::size_t members) {
  const auto [at, fresh] = plans_.try_emplace(round);
  RoundPlan& plan = at->second;
  if (!fresh) {
    return plan;
  }
  if (options_.fails_at_start) {
    plan.failing = 0;
    plan.fails_after = between(Duration{}, milliseconds(100));
  } else if (random_.chance(options_.round_fails_percent)) {
    plan.failing =
        static_cast<std::int32_t>(random_.between(0, static_cast<std::int64_t>(members) - 1));
    plan.fails_after = random_.chance(30) ? between(Duration{}, milliseconds(100))
                                          : between(Duration{}, options_.lease * 4);
    plan.permanent = random_.chance(3);
  }
  plan.finishes = random_.chance(options_.round_finishes_percent);
  plan.finishes_after = between(Duration{}, options_.lease * 6);
  return plan;
}

void NodesWorld::run_round(std::uint32_t number, const RunRound& run) {
  Agent& agent = agents_[number];
  Workers& workers = agent.workers;
  if (workers.alive) {
    complain("a node was told to run a round while workers of another one run");
    return;
  }
  if (agent.stranger) {
    complain("a node with another command line takes part");
  }
  // Checks that visit all nodes run once per round.
  const bool is_new = checkers_.round(run.round->id) == nullptr;
  checkers_.ran(agent.info.id,
                run,
                is_new ? Checkers::Known{remembered(), recalled()} : Checkers::Known{},
                queue_.now());
  agent.told = run.round->id;
  workers.alive = true;
  workers.stopping = false;
  workers.finished = false;
  workers.failed = false;
  ++workers.generation;
  workers.round = run.round;
  workers.group_rank = run.group_rank;
  workers.since = queue_.now();
  workers.epoch = run.round->id.number;
  workers.entered = workers.requests = workers.lacking = 0;
  count(number, true);
  if (run.group_rank != 0) {
    expect_client(number);
  }
  expect_stalls(number);
  expect_waits(number);
  expect_entry(number);
  if (agent.guard_at && !agent.guard_posted) {
    agent.guard_posted = true;
    queue_.at(*agent.guard_at, Happening{Kind::guard, 0, number, 0, nullptr, nullptr});
  }
  const RoundPlan& plan = plan_of(run.round->id, run.round->members.size());
  if (calm_) {
    return;
  }
  if (options_.mends && random_.chance(options_.round_fails_percent)) {
    for (int i = 0; i < kMendFailures; ++i) {
      queue_.after(between(Duration{}, options_.lease * 6),
                   Happening{Kind::worker_fails, 0, number, workers.generation, nullptr, nullptr});
    }
  }
  if (plan.failing == run.group_rank) {
    queue_.after(plan.fails_after,
                 Happening{Kind::worker_fails, 0, number, workers.generation, nullptr, nullptr});
  }
  if (plan.finishes) {
    finish_workers(number, plan.finishes_after + between(Duration{}, options_.lease / 5));
  }
}

void NodesWorld::finish_workers(std::uint32_t number, Duration after) {
  queue_.after(
      after,
      Happening{
          Kind::workers_finish, 0, number, agents_[number].workers.generation, nullptr, nullptr});
}

void NodesWorld::fail_worker(std::uint32_t number) {
  if (agents_[number].workers.alive) {
    on_worker_fails(number);
  }
}

void NodesWorld::on_worker_fails(std::uint32_t number) {
  Agent& agent = agents_[number];
  if (!agent.workers.alive || agent.workers.stopping) {
    return;
  }
  note(agent.label, '!', "a worker fails");
  // Once for all workers of a node. Otherwise failures would multiply without end until a stop.
  if (!std::exchange(agent.workers.failed, true)) {
    cascade(agent.workers.round->id);
  }
  queue_.after(between(microseconds(10), milliseconds(1)),
               Happening{Kind::noticed,
                         static_cast<std::uint8_t>(kFailed),
                         number,
                         agent.workers.generation,
                         nullptr,
                         nullptr});
}

// Workers that communicate with dead workers fail as well.
void NodesWorld::cascade(RoundId round) {
  if (options_.cascade_percent == 0) {
    return;
  }
  for (std::size_t i = 0; i < kCascadeMax; ++i) {
    const auto number = static_cast<std::uint32_t>(
        random_.between(0, static_cast<std::int64_t>(agents_.size()) - 1));
    const Workers& workers = agents_[number].workers;
    if (workers.alive && workers.round->id == round && random_.chance(options_.cascade_percent)) {
      queue_.after(between(microseconds(100), milliseconds(300)),
                   Happening{Kind::worker_fails, 0, number, workers.generation, nullptr, nullptr});
    }
  }
}

void NodesWorld::stop_workers(std::uint32_t number, bool kill) {
  Agent& agent = agents_[number];
  Workers& workers = agent.workers;
  if (!workers.alive) {
    queue_.after(between(microseconds(10), milliseconds(1)),
                 Happening{Kind::noticed,
                           static_cast<std::uint8_t>(kGone),
                           number,
                           workers.generation,
                           nullptr,
                           nullptr});
    return;
  }
  if (workers.stopping && !kill) {
    return;
  }
  const bool was_stopping = std::exchange(workers.stopping, true);
  Duration delay = between(microseconds(50), milliseconds(kill ? 2 : 30));
  if (!kill && !was_stopping && random_.chance(options_.stubborn_percent)) {
    delay = options_.grace + between(Duration{}, milliseconds(2));
  }
  queue_.after(delay,
               Happening{Kind::workers_die, 0, number, workers.generation, nullptr, nullptr});
}

void NodesWorld::on_workers_die(std::uint32_t number, bool by_guard, bool finished) {
  Agent& agent = agents_[number];
  Workers& workers = agent.workers;
  if (!workers.alive || (finished && (workers.stopping || workers.lacking != 0))) {
    return;
  }
  workers.alive = false;
  workers.finished = finished;
  agent.excused_until = VirtualTime{};
  count(number, false);
  if (by_guard || !agent.process) {
    note(agent.label, '!', "its guard has killed the workers");
    cascade(workers.round->id);
  }
  if (!agent.process) {
    return;
  }
  if (agent.ending != Ending::none) {
    post(between(microseconds(10), milliseconds(2)), Kind::exited, number);
    return;
  }
  const int how = finished ? kFinished : by_guard ? kKilled : kGone;
  queue_.after(between(microseconds(10), milliseconds(1)),
               Happening{Kind::noticed,
                         static_cast<std::uint8_t>(how),
                         number,
                         workers.generation,
                         nullptr,
                         nullptr});
}

WorkerFailedHere NodesWorld::failure_of(std::uint32_t number, int exit_code) {
  const Agent& agent = agents_[number];
  const Workers& workers = agent.workers;
  WorkerFailedHere failed;
  failed.message.round = workers.round->id;
  failed.message.rank = workers.group_rank;
  failed.message.exit_code = exit_code;
  failed.message.run_time = queue_.now() - workers.since;
  failed.message.permanent = plan_of(workers.round->id, 1).permanent;
  failed.message.exited = exit_code != kKilledCode;
  failed.message.node_cause = options_.blames ? "unknown" : "";
  failed.message.text = fmt::format("exited with code {}", exit_code);
  failed.seen_at = machines_[agent.machine].clock.local(queue_.now());
  return failed;
}

void NodesWorld::report_failure(std::uint32_t number, int exit_code) {
  WorkerFailedHere failed = failure_of(number, exit_code);
  const Details details{failed.message.round, failed.message.rank, "the last lines"};
  to_agent(number, std::move(failed));
  if (random_.chance(70)) {
    to_agent(number, details);
  }
}

void NodesWorld::on_noticed(std::uint32_t number, int how, std::uint64_t generation) {
  Agent& agent = agents_[number];
  const Workers& workers = agent.workers;
  if (!lives(agent) || generation != workers.generation) {
    return;
  }
  if (how == kFinished) {
    to_agent(number, WorkersFinished{});
    return;
  }
  if (how == kFailed || (how == kKilled && random_.chance(50))) {
    const int exit_code = how == kKilled            ? kKilledCode
                          : options_.fails_at_start ? 1
                          : random_.chance(30)      ? 1
                                                    : static_cast<int>(random_.between(1, 99));
    if (options_.mends && how == kFailed && !workers.stopping) {
      lack(number, failure_of(number, exit_code).message);
      return;
    }
    report_failure(number, exit_code);
  }
  if (how != kFailed) {
    to_agent(number, WorkersGone{});
  }
}

}  // namespace muster::sim
