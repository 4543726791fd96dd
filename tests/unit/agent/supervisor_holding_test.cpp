// SPDX-License-Identifier: Apache-2.0
// A lost connection is a consequence, so the core waits for the cause before it stops the other
// workers.
#include "supervisor_bench.hpp"

using namespace muster;
using namespace muster::testing;

namespace {

void lose(Bench& bench, int local_rank) {
  bench.step(exited(WorkerExit{local_rank, 100 + local_rank, {false, 1}, false, {}}, true));
}

void fail_at_startup(Bench& bench, int local_rank) {
  WorkerExited ended = exited(WorkerExit{local_rank, 100 + local_rank, {false, 1}, false, {}});
  ended.failure->startup_error = true;
  bench.step(ended);
}

// One of several nodes; all its workers have lost a connection and exited.
Bench bereft(int others) {
  Bench bench{shared_settings()};
  bench.nproc = 2;
  bench.others = others;
  bench.start();
  lose(bench, 0);
  lose(bench, 1);
  return bench;
}

Bench running(BenchSettings chosen) {
  Bench bench(std::move(chosen));
  bench.nproc = 3;
  bench.start();
  return bench;
}

}  // namespace

TEST_CASE("holding: after a lost connection it stops no worker until the cause is known") {
  Bench bench = running(settings());
  lose(bench, 0);
  CHECK(bench.effects.empty());
  CHECK(bench.core.state() == State::running);
  CHECK(bench.core.next_deadline() == bench.now + kDeathNewsTime);
  bench.now += std::chrono::seconds(1);
  bench.exit(1, 7);
  CHECK(bench.asked<SignalGroups>() != nullptr);
  CHECK(bench.core.state() == State::stopping);
  bench.die(2, SIGTERM);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  CHECK(exit_code_of(bench.core.result()) == 7);
}

TEST_CASE("holding: an error at startup waits for the other workers before a restart") {
  Bench bench = running(settings(1));
  fail_at_startup(bench, 0);
  fail_at_startup(bench, 2);
  CHECK(bench.effects.empty());
  fail_at_startup(bench, 1);
  CHECK(bench.core.state() == State::stopping);
  Bench late = running(settings(1));
  fail_at_startup(late, 0);
  late.now += kDeathNewsTime;
  late.step(Tick{});
  CHECK(late.core.state() == State::stopping);
}

TEST_CASE("holding: ends when the time for the cause to appear has passed") {
  Bench bench = running(settings());
  lose(bench, 0);
  bench.now += kDeathNewsTime - std::chrono::milliseconds(1);
  bench.step(Tick{});
  CHECK(bench.core.state() == State::running);
  lose(bench, 2);  // prolongs nothing
  bench.now += std::chrono::milliseconds(1);
  bench.step(Tick{});
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("holding: ends when no remaining worker can be the cause") {
  Bench bench = running(settings());
  lose(bench, 0);
  lose(bench, 1);
  bench.exit(2, 0);
  CHECK(bench.core.state() != State::running);
  CHECK(bench.core.result().failures.size() == 2);
}

TEST_CASE("holding: a signal stops the workers at once") {
  Bench bench = running(settings());
  lose(bench, 0);
  bench.step(SignalReceived{SIGTERM, 1});
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("holding, many nodes: reports the cause first, then the lost connection") {
  Bench bench = running(shared_settings());
  lose(bench, 0);
  CHECK(bench.effects.empty());
  bench.exit(1, 7);
  std::vector<int> ranks;
  for (const auto& effect : bench.effects) {
    if (const auto* report = std::get_if<WorkerFailure>(&effect)) {
      ranks.push_back(report->rank);
    }
  }
  CHECK(ranks == std::vector{1, 0});
}

TEST_CASE("holding, many nodes: reports a deferred failure when other nodes stop the round") {
  Bench bench = running(shared_settings());
  lose(bench, 0);
  bench.step(RegroupNotice{"rank 9 on 'other' exited with code 7"});
  REQUIRE(bench.asked<WorkerFailure>() != nullptr);
  CHECK(bench.asked<WorkerFailure>()->rank == 0);
}

TEST_CASE(
    "holding, many nodes: if all workers lost a connection, it waits for news from other nodes") {
  Bench bench = bereft(1);
  bench.step(GroupsEmpty{});
  CHECK(bench.effects.empty());
  CHECK(bench.core.state() == State::running);
  CHECK(bench.core.next_deadline() == bench.now + kDeathNewsTime);
  bench.step(RegroupNotice{"rank 9 on 'other' exited with code 7"});
  REQUIRE(bench.asked<WorkerFailure>() != nullptr);
  CHECK(bench.asked<WorkerFailure>()->lost_connection);
}

TEST_CASE("holding, many nodes: without news it finally reports the lost connection") {
  Bench bench = bereft(1);
  bench.step(GroupsEmpty{});
  bench.now += kDeathNewsTime;
  bench.step(Tick{});
  REQUIRE(bench.asked<WorkerFailure>() != nullptr);
  CHECK(bench.asked<WorkerFailure>()->rank == 0);
  CHECK(bench.core.state() == State::clearing);
}

TEST_CASE("holding, many nodes: a node with all workers of the round reports at once") {
  Bench bench = bereft(0);
  CHECK(bench.asked<WorkerFailure>() != nullptr);
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("holding, many nodes: the last worker's success says nothing about the other nodes") {
  Bench bench{shared_settings()};
  bench.others = 1;
  bench.start();
  lose(bench, 0);
  bench.exit(1, 0);
  CHECK(bench.effects.empty());
  CHECK(bench.core.state() == State::running);
}

TEST_CASE("holding, many nodes: sends no stop request if no worker is left") {
  const std::vector<SupervisorEvent> ends{RegroupNotice{"x"},
                                          SignalReceived{SIGTERM, 1},
                                          Fenced{"x"},
                                          RoundClosed{Outcome::failed, Close{}, std::nullopt, {}}};
  for (const SupervisorEvent& end : ends) {
    INFO("event " << end.index());
    Bench bench = bereft(1);
    bench.step(GroupsEmpty{});
    bench.step(end);
    const bool fenced = std::holds_alternative<Fenced>(end);
    CHECK((bench.asked<KillEverything>() != nullptr) == fenced);
    CHECK((bench.asked<AwaitNothingLeft>() != nullptr) == !fenced);
    CHECK(bench.asked<SignalGroups>() == nullptr);
    CHECK(bench.core.state() == (fenced ? State::killing : State::clearing));
  }
}

TEST_CASE("holding, many nodes: processes left by the workers get their grace period") {
  Bench bench = bereft(1);
  bench.step(RegroupNotice{"x"});
  CHECK(bench.asked<SignalGroups>() != nullptr);
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("holding, many nodes: empty process groups count for one attempt only") {
  Bench bench = bereft(1);
  bench.step(GroupsEmpty{});
  bench.step(RegroupNotice{"x"});
  bench.step(NothingLeft{});
  bench.spawn_all();
  bench.step(RegroupNotice{"y"});
  CHECK(bench.core.state() == State::stopping);
}
