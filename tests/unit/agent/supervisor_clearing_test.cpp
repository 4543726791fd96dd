// SPDX-License-Identifier: Apache-2.0
// Processes that workers leave behind: time to exit on their own, SIGTERM, SIGKILL.
#include "supervisor_bench.hpp"

#include <csignal>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

Bench succeeded(const BenchSettings& chosen = settings()) {
  Bench bench{chosen};
  bench.start();
  bench.exit(0, 0);
  bench.exit(1, 0);
  REQUIRE(bench.core.state() == State::clearing);
  CHECK_FALSE(bench.asked<KillEverything>());
  return bench;
}

Bench failed(const BenchSettings& chosen = settings()) {
  Bench bench{chosen};
  bench.start();
  bench.exit(0, 7);
  bench.now += 10s;
  bench.die(1, SIGTERM);
  bench.step(GroupsEmpty{});
  REQUIRE(bench.core.state() == State::clearing);
  return bench;
}

}  // namespace

TEST_CASE("clearing: processes left by successful workers may finish within the grace period") {
  Bench bench = succeeded();
  bench.wait(kSelfExitTime);
  REQUIRE(bench.asked<NameLeftovers>());
  CHECK(bench.asked<NameLeftovers>()->left == 30s - kSelfExitTime);
  CHECK_FALSE(bench.asked<AskLeftovers>());
  SECTION("it exits in time") {
    bench.now += 20s;
    bench.step(NothingLeft{});
    CHECK(bench.asked<Finish>());
    CHECK(exit_code_of(bench.core.result()) == 0);
  }
  SECTION("it does not exit, and gets another grace period") {
    bench.wait(30s - kSelfExitTime);
    CHECK(bench.asked<AskLeftovers>());
    bench.wait(30s);
    REQUIRE(bench.asked<KillWorkers>());
    CHECK(bench.asked<KillWorkers>()->names);
    bench.wait(kSelfExitTimeInHurry);
    REQUIRE(bench.asked<KillEverything>());
    CHECK(bench.asked<KillEverything>()->names);
    bench.step(NothingLeft{});
    CHECK(exit_code_of(bench.core.result()) == 0);
  }
}

TEST_CASE("clearing: without a grace period they may exit on their own, but get no SIGTERM") {
  Bench bench = succeeded(settings(0, 0s));
  CHECK(bench.core.next_deadline() == bench.now + kSelfExitTime);
  bench.wait(kSelfExitTime);
  CHECK_FALSE(bench.asked<AskLeftovers>());
  CHECK(bench.asked<KillWorkers>());
}

TEST_CASE("clearing: after a failure they get the remainder of the workers' grace period") {
  Bench bench = failed();
  const TimePoint until = bench.now + 20s;
  bench.wait(kSelfExitTime);
  CHECK(bench.asked<AskLeftovers>());
  CHECK_FALSE(bench.asked<NameLeftovers>());
  for (int i = 0; bench.core.state() == State::clearing; ++i) {
    CHECK((i > 20 || bench.asked<LookAtLeftovers>()));
    bench.now = *bench.core.next_deadline();
    bench.step(Tick{});
  }
  CHECK(bench.now == until);
  CHECK(bench.asked<KillWorkers>());
}

TEST_CASE("clearing: processes that ignore SIGTERM get no more time once only they remain") {
  Bench bench = failed();
  bench.wait(kSelfExitTime);
  CHECK(bench.asked<LookAtLeftovers>());
  if (GENERATE(false, true)) {
    bench.wait(kSelfExitTime);
    CHECK(bench.asked<LookAtLeftovers>());
    CHECK_FALSE(bench.asked<AskLeftovers>());
  }
  bench.step(LeftoversSeen{.only_deaf = true});
  CHECK(bench.asked<KillWorkers>());
  CHECK_FALSE(bench.asked<KillEverything>());
  bench.wait(kSelfExitTimeInHurry);
  CHECK(bench.asked<KillEverything>());
}

TEST_CASE(
    "stopping: groups of dead workers get no grace once all remaining processes ignore SIGTERM") {
  Bench bench{settings()};
  bench.start();
  const int signo = GENERATE(SIGTERM, SIGINT);
  bench.step(SignalReceived{signo, 1});
  bench.die(0, signo);
  bench.wait(kSelfExitTime);
  CHECK_FALSE(bench.asked<LookAtLeftovers>());
  bench.die(1, signo);
  bench.wait(kSelfExitTime);
  CHECK((bench.asked<LookAtLeftovers>() != nullptr) == (signo == SIGTERM));  // may react to SIGINT
  if (signo == SIGTERM) {
    bench.wait(kSelfExitTime);
    CHECK(bench.asked<LookAtLeftovers>());
    bench.step(LeftoversSeen{.only_deaf = true});
    CHECK(bench.asked<KillWorkers>());
    CHECK(bench.core.result().overdue.empty());
  }
}

TEST_CASE("stopping: children of a dead worker get SIGTERM within half of the grace period") {
  Bench bench{settings(0, 400ms)};
  bench.start();
  bench.begin_to_die(0, SIGKILL);  // and its memory is not freed for long
  bench.wait(199ms);
  CHECK_FALSE(bench.asked<SignalGroups>());
  bench.wait(1ms);
  REQUIRE(bench.asked<SignalGroups>());
  CHECK(bench.asked<SignalGroups>()->which == GroupsOf::skipped_workers);
}

TEST_CASE("stopping: children of a dead worker have a moment from when its memory is free") {
  Bench bench{settings()};
  bench.start();
  bench.begin_to_die(0, SIGSEGV);
  CHECK(bench.asked<SignalGroups>()->which == GroupsOf::running_workers);
  bench.wait(kSelfExitTimeInHurry);
  CHECK_FALSE(bench.asked<SignalGroups>());
  bench.now += kSelfExitTimeInHurry / 2;
  bench.die(0, SIGSEGV);  // reaped: a filter of its output reaches end of file only now
  bench.wait(kSelfExitTimeInHurry / 2);
  CHECK_FALSE(bench.asked<SignalGroups>());
  bench.wait(kSelfExitTimeInHurry / 2);
  REQUIRE(bench.asked<SignalGroups>());
  CHECK(bench.asked<SignalGroups>()->signo == SIGTERM);
  CHECK(bench.asked<SignalGroups>()->which == GroupsOf::skipped_workers);
}

TEST_CASE("clearing: after success even processes that ignore SIGTERM may finish") {
  Bench bench = succeeded();
  bench.wait(kSelfExitTime);
  CHECK_FALSE(bench.asked<LookAtLeftovers>());
  bench.wait(30s - kSelfExitTime);
  CHECK(bench.asked<LookAtLeftovers>());
}

TEST_CASE("clearing: the next attempt begins only when no process of the old one is left") {
  Bench bench = failed(settings(1));
  bench.wait_for_kill();
  CHECK_FALSE(bench.asked<AwaitRound>());
  bench.wait(kSelfExitTimeInHurry);
  CHECK(bench.asked<KillEverything>());
  bench.step(NothingLeft{});
  CHECK(bench.asked<AwaitRound>());
}

TEST_CASE("clearing: a signal skips the wait for a voluntary exit, a second one the SIGTERM") {
  Bench bench = succeeded();
  const bool waits = GENERATE(false, true);
  if (waits) {
    bench.wait(kSelfExitTime);
  }
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.asked<AskLeftovers>());
  bench.now += 250ms;
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.asked<KillWorkers>());
  CHECK_FALSE(bench.asked<TellKilledEarly>());  // all workers have exited; names the rest
  bench.step(NothingLeft{});
  CHECK(exit_code_of(bench.core.result()) == 128 + SIGINT);
}

TEST_CASE("clearing: a killed worker's child processes get their time once it is reaped") {
  Bench bench{settings(1)};
  bench.start();
  bench.exit(0, 7);
  bench.wait(30s);
  CHECK(bench.asked<KillWorkers>());
  bench.now += 9s;  // freeing its memory takes long
  bench.step(Tick{});
  bench.die(1, SIGKILL);
  CHECK(bench.core.next_deadline() == bench.now + kSelfExitTime);
}

TEST_CASE("clearing: torch_shm_manager has the time that it needs to remove shared memory") {
  Bench bench = GENERATE(false, true) ? failed() : succeeded();
  REQUIRE(bench.asked<LookAtLeftovers>());
  bench.step(LeftoversSeen{.shm_manager = true});
  CHECK(bench.core.next_deadline() == bench.now + kShmManagerTime);
  bench.now += 2s;
  bench.step(LeftoversSeen{.shm_manager = true});
  CHECK(bench.core.next_deadline() == bench.now - 2s + kShmManagerTime);
  bench.step(NothingLeft{});
  CHECK(bench.asked<Finish>());
}

TEST_CASE("killing: torch_shm_manager has its time also without a grace period") {
  Bench bench{settings(0, 0s)};
  bench.start();
  bench.exit(0, 7);
  REQUIRE(bench.asked<KillWorkers>());
  REQUIRE(bench.asked<LookAtLeftovers>());
  bench.step(LeftoversSeen{.shm_manager = true});
  bench.die(1, SIGKILL);
  CHECK(bench.core.next_deadline() == bench.now + kShmManagerTime);
  bench.wait(kShmManagerTime);
  CHECK(bench.asked<KillEverything>());
  bench.wait(kKillTimeout);
  CHECK(bench.asked<Finish>());
}

TEST_CASE("killing: a torch_shm_manager that has exited no longer delays SIGKILL") {
  BenchSettings only_term = settings();
  only_term.signals_to_forward = {SIGTERM};
  Bench bench = failed(only_term);
  bench.step(LeftoversSeen{.shm_manager = true});
  bench.step(SignalReceived{SIGQUIT, 1});
  REQUIRE(bench.asked<KillWorkers>());
  bench.step(LeftoversSeen{});
  bench.wait(kSelfExitTime);
  CHECK(bench.asked<KillEverything>());
  CHECK(bench.core.next_deadline() > bench.now);
}

TEST_CASE("clearing: a user who interrupts waits less long for torch_shm_manager") {
  Bench bench{settings()};
  bench.start();
  bench.step(SignalReceived{SIGTERM, 1});
  bench.die(0, SIGTERM);
  bench.die(1, SIGTERM);
  bench.step(GroupsEmpty{});
  bench.step(LeftoversSeen{.shm_manager = true});
  CHECK(bench.core.next_deadline() == bench.now + kShmManagerTimeInHurry);
}

TEST_CASE("clearing, many nodes: the job's failure elsewhere ends the time to finish") {
  Bench bench = succeeded(shared_settings());
  bench.wait(kSelfExitTime);
  const bool well = GENERATE(false, true);
  bench.step(RoundClosed{well ? Outcome::succeeded : Outcome::failed, Close{}, {}, {}});
  CHECK((bench.core.next_deadline() == bench.now) == !well);
}
