// SPDX-License-Identifier: Apache-2.0
// Under a scheduler that signals every process of a step itself, each worker receives a signal
// once. A worker that dies from it just before the launcher receives it has not failed.
#include "supervisor_bench.hpp"

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

BenchSettings in_step(int max_restarts = 0) {
  BenchSettings chosen = settings(max_restarts);
  chosen.signals_reach_all = true;
  return chosen;
}

Bench running(BenchSettings chosen, int others = 0) {
  chosen.shared = others > 0;
  Bench bench(chosen);
  bench.now = TimePoint{} + 1h;
  bench.others = others;
  bench.start();
  bench.now += kSignalSpread;
  return bench;
}

SignalReceived to_all(int signo) {
  return {signo, 7, true};
}

bool signals_workers(const Bench& bench) {
  return bench.asked<SignalGroups>() != nullptr || bench.asked<SignalWorkers>() != nullptr;
}

void end_all(Bench& bench) {
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
}

}  // namespace

TEST_CASE("drain: a signal that the workers have received is not sent to them again") {
  for (const int signo : {SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP, SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    INFO("signal " << signo);
    Bench bench = running(in_step());
    bench.step(to_all(signo));
    CHECK_FALSE(signals_workers(bench));
    const bool ends = signo == SIGTERM || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
    CHECK(bench.core.state() == (ends ? State::stopping : State::running));
    CHECK((bench.asked<TellDrain>() != nullptr) == ends);
  }
}

TEST_CASE("drain: a scheduler may have missed workers that were just started") {
  Bench bench = running(in_step());
  bench.now -= 1ms;
  bench.step(to_all(SIGTERM));
  CHECK(bench.asked<SignalGroups>());
  CHECK(bench.asked<TellDrain>());
}

TEST_CASE("drain: a signal to the launcher alone is forwarded, even in a step") {
  Bench bench = running(in_step());
  bench.step(SignalReceived{SIGUSR1, 7});
  CHECK(bench.asked<SignalWorkers>());
  bench.step(SignalReceived{SIGTERM, 7});
  REQUIRE(bench.asked<SignalGroups>());
  CHECK(bench.asked<SignalGroups>()->signo == SIGTERM);
  CHECK_FALSE(bench.asked<TellDrain>());
}

TEST_CASE(
    "drain: a worker that dies of the signal before the launcher receives it has not failed") {
  for (const bool as_code : {false, true}) {
    Bench bench = running(in_step(3));
    if (as_code) {
      bench.exit(0, 128 + SIGTERM);
    } else {
      bench.die(0, SIGTERM);
    }
    CHECK(bench.effects.empty());
    CHECK(bench.core.next_deadline() == bench.now + kSignalSpread);
    bench.now += kSignalSpread - 1ms;
    bench.step(to_all(SIGTERM));
    CHECK_FALSE(signals_workers(bench));
    CHECK(was_stopped_by_us(bench.core.result().failures.front(), SIGTERM));
    bench.die(1, SIGTERM);
    end_all(bench);
    CHECK(bench.core.result().outcome == Outcome::interrupted);
    CHECK(exit_code_of(bench.core.result()) == 128 + SIGTERM);
    CHECK(bench.core.starts() == 1);
    CHECK(bench.local->warnings.empty());
  }
}

TEST_CASE("drain: the same if all workers died, one because its peers disappeared") {
  Bench bench = running(in_step(3));
  bench.die(0, SIGTERM);
  bench.exit(1, 1);
  bench.step(GroupsEmpty{});
  CHECK(bench.effects.empty());
  CHECK(bench.core.state() == State::running);
  bench.step(to_all(SIGTERM));
  CHECK(bench.asked<AwaitNothingLeft>());
  bench.step(NothingLeft{});
  CHECK(bench.core.result().outcome == Outcome::interrupted);
}

TEST_CASE("drain: deaths observed early are deferred, and reaped meanwhile") {
  Bench bench = running(in_step(3));
  bench.begin_to_die(0, SIGTERM);
  bench.begin_to_die(1, SIGTERM);
  bench.die(0, SIGTERM);
  bench.die(1, SIGTERM);
  CHECK(bench.effects.empty());
  CHECK(bench.core.result().failures.size() == 2);
  bench.step(GroupsEmpty{});
  bench.step(to_all(SIGTERM));
  bench.step(NothingLeft{});
  CHECK(bench.core.result().outcome == Outcome::interrupted);
}

TEST_CASE("drain: without such a signal the death counts a moment later") {
  Bench bench = running(in_step(3));
  bench.die(0, SIGTERM);
  bench.now += kSignalSpread - 1ms;
  bench.step(Tick{});
  CHECK(bench.core.state() == State::running);
  bench.now += 1ms;
  bench.step(Tick{});
  CHECK(bench.core.state() == State::stopping);
  bench.die(1, SIGTERM);
  end_all(bench);
  CHECK(bench.asked<AwaitRound>());
}

TEST_CASE("drain: deaths that no such signal can explain count at once") {
  for (const int code : {1, 3, 128 + SIGKILL, 128 + SIGSEGV, 128 + SIGUSR1}) {
    INFO("code " << code);
    Bench bench = running(in_step());
    bench.exit(0, code);
    CHECK(bench.core.state() == State::stopping);
  }
  Bench elsewhere = running(settings());
  elsewhere.die(0, SIGTERM);
  CHECK(elsewhere.core.state() == State::stopping);
}

TEST_CASE("drain: a lost connection before the death of its cause is deferred as well") {
  Bench bench = running(in_step());
  bench.step(exited(WorkerExit{0, 100, {false, 1}, false, {}}, true));
  const TimePoint held = bench.now + kDeathNewsTime;
  bench.now += kDeathNewsTime - 100ms;
  bench.die(1, SIGTERM);
  CHECK(bench.core.state() == State::running);
  CHECK(bench.core.next_deadline() == held - 100ms + kSignalSpread);
}

TEST_CASE("drain: a second SIGTERM changes nothing, a second SIGINT skips the grace period") {
  for (const bool reached : {true, false}) {
    Bench bench = running(in_step());
    bench.step(to_all(SIGTERM));
    const auto deadline = bench.core.next_deadline();
    bench.now += 1s;
    bench.step(SignalReceived{SIGTERM, 7, reached});
    CHECK(bench.effects.empty());
    CHECK(bench.core.next_deadline() == deadline);
    bench.step(SignalReceived{SIGINT, 7, reached});
    CHECK(bench.asked<KillWorkers>());
  }
}

TEST_CASE("drain: workers may run until the job ends, plus the grace period") {
  BenchSettings chosen = in_step();
  chosen.job_ends = TimePoint{} + 1h + kSignalSpread + 180s;
  Bench bench = running(chosen);
  bench.step(to_all(SIGTERM));
  REQUIRE(bench.asked<TellDrain>());
  CHECK(bench.asked<TellDrain>()->left == 210s);
  CHECK(bench.asked<TellDrain>()->until_job_ends);
  CHECK(bench.core.next_deadline() == bench.now + 210s);
  bench.now += 210s;
  bench.step(Tick{});
  CHECK(bench.asked<KillWorkers>());
}

TEST_CASE("drain: only the grace period remains after the job's end or after our own stop") {
  BenchSettings chosen = in_step();
  chosen.job_ends = TimePoint{} + 1min;
  Bench late = running(chosen);
  late.step(to_all(SIGTERM));
  CHECK(late.asked<TellDrain>()->left == 30s);
  CHECK_FALSE(late.asked<TellDrain>()->until_job_ends);
  chosen = in_step(3);
  chosen.job_ends = TimePoint{} + 2h;
  Bench failed = running(chosen);
  failed.exit(0, 3);
  failed.wait(kSelfExitTimeInHurry);
  CHECK(failed.core.next_deadline() == failed.now + 30s - kSelfExitTimeInHurry);
  failed.step(to_all(SIGTERM));
  CHECK(failed.core.next_deadline() == TimePoint{} + 2h + 30s);
  CHECK_FALSE(signals_workers(failed));
}

TEST_CASE(
    "drain, many nodes: notifies other nodes once they must have received the signal themselves") {
  Bench bench = running(in_step(), 2);
  bench.step(to_all(SIGTERM));
  CHECK_FALSE(bench.asked<LeaveRound>());
  CHECK(bench.core.next_deadline() == bench.now + kSignalSpread);
  bench.now += kSignalSpread;
  bench.step(Tick{});
  REQUIRE(bench.asked<LeaveRound>());
  CHECK(bench.asked<LeaveRound>()->reason == "asked to stop by SIGTERM");
  CHECK(bench.core.next_deadline() == bench.now - kSignalSpread + 30s);
  bench.die(0, SIGTERM);
  bench.die(1, SIGTERM);
  end_all(bench);
  CHECK(bench.asked<TellGone>());
  CHECK_FALSE(bench.asked<LeaveRound>());
}

TEST_CASE("drain, many nodes: the same if the workers have exited before") {
  Bench bench = running(in_step(), 2);
  const TimePoint asked = bench.now;
  bench.step(to_all(SIGTERM));
  bench.die(0, SIGTERM);
  bench.die(1, SIGTERM);
  end_all(bench);
  CHECK(bench.core.state() == State::waiting);
  CHECK_FALSE(bench.asked<TellGone>());
  bench.step(to_all(SIGTERM));
  CHECK(bench.core.state() == State::waiting);
  CHECK(bench.core.next_deadline() == asked + kSignalSpread);
  bench.now = asked + kSignalSpread;
  bench.step(Tick{});
  REQUIRE(bench.effects.size() == 2);
  CHECK(std::holds_alternative<LeaveRound>(bench.effects[0]));
  CHECK(std::holds_alternative<TellGone>(bench.effects[1]));
  bench.now += kLeaveTimeout;
  bench.step(Tick{});
  CHECK(bench.core.result().outcome == Outcome::interrupted);
}

TEST_CASE("drain, many nodes: a node that leaves alone notifies the others at once") {
  Bench bench = running(in_step(), 2);
  bench.step(SignalReceived{SIGTERM, 7});
  CHECK(bench.asked<LeaveRound>());
}
