// SPDX-License-Identifier: Apache-2.0
// A lost connection is a consequence: the core waits for its cause before it stops the others.
#include "supervisor_bench.hpp"

using namespace muster;
using namespace muster::testing;

namespace {

void lose(Bench& bench, int local_rank) {
  bench.step(
      WorkerExited{WorkerExit{local_rank, 100 + local_rank, {false, 1}, false, {}}, 1000, true});
}

Bench running(BenchSettings chosen) {
  Bench bench(std::move(chosen));
  bench.nproc = 3;
  bench.start();
  return bench;
}

}  // namespace

TEST_CASE("holding: after a lost connection nobody is stopped until the cause is seen") {
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

TEST_CASE("holding: it ends when the time for the news is over") {
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

TEST_CASE("holding: it ends when nobody is left to be the cause") {
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

TEST_CASE("holding, many nodes: the cause is reported first, then who lost it") {
  Bench bench = running(shared_settings());
  lose(bench, 0);
  CHECK(bench.effects.empty());
  bench.exit(1, 7);
  std::vector<int> ranks;
  for (const auto& effect : bench.effects) {
    if (const auto* report = std::get_if<ReportFailure>(&effect)) {
      ranks.push_back(report->failure.rank);
    }
  }
  CHECK(ranks == std::vector{1, 0});
}

TEST_CASE("holding, many nodes: what is held is reported when the others stop the round") {
  Bench bench = running(shared_settings());
  lose(bench, 0);
  bench.step(RegroupNotice{"rank 9 on 'other' exited with code 7"});
  REQUIRE(bench.asked<ReportFailure>() != nullptr);
  CHECK(bench.asked<ReportFailure>()->failure.rank == 0);
}
