// SPDX-License-Identifier: Apache-2.0
// How the core handles workers that are known to be dying but have not been reaped yet.
#include "supervisor_bench.hpp"

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

// Rank 1 of 2 is dying, and the other rank has received SIGTERM.
Bench dying(const BenchSettings& chosen = settings()) {
  Bench bench{chosen};
  bench.start();
  bench.now += 60s;
  bench.begin_to_die(1, SIGKILL);
  return bench;
}

}  // namespace

TEST_CASE(
    "supervisor core: stops the other workers when one begins to die, although it still exists") {
  Bench bench = dying();
  REQUIRE(bench.asked<SignalGroups>());
  CHECK(bench.asked<SignalGroups>()->signo == SIGTERM);
  CHECK(bench.core.state() == State::stopping);
  bench.now += 1s;
  bench.die(0, SIGTERM);
  CHECK(bench.effects.empty());
  bench.die(1, SIGKILL);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  const JobResult& result = bench.core.result();
  CHECK(result.outcome == Outcome::failed);
  CHECK(exit_code_of(result) == 128 + SIGKILL);
  REQUIRE(result.failures.size() == 2);  // each once
  CHECK(result.failures[0].local_rank == 1);
  CHECK(result.failures[0].wall_seconds == 999);
  CHECK_FALSE(result.failures[0].after_stop);
  CHECK(was_stopped_by_us(result.failures[1], result.stop_signal));
}

TEST_CASE("supervisor core: a restart waits until the dying worker is reaped") {
  Bench bench = dying(settings(1));
  REQUIRE(bench.local->warnings.size() == 1);
  CHECK(bench.local->warnings.front().find("killed by SIGKILL; restarting") != std::string::npos);
  bench.die(0, SIGTERM);
  CHECK_FALSE(bench.asked<AwaitRound>());
  bench.die(1, SIGKILL);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  REQUIRE(bench.asked<AwaitRound>());
  bench.spawn_all();  // nothing is remembered from the previous attempt
  bench.die(1, SIGKILL);
  CHECK(bench.core.result().failures.size() == 1);
}

TEST_CASE("supervisor core: adds the details that only the wait status contains") {
  Bench bench;
  bench.start();
  bench.begin_to_die(0, SIGSEGV);
  const ExitStatus dumped{.signaled = true, .value = SIGSEGV, .core_dumped = true};
  bench.step(exited(WorkerExit{0, 100, dumped, true, "limit 1 GiB"}));
  const WorkerFailure& failure = bench.core.result().failures.at(0);
  CHECK(failure.status == dumped);
  CHECK(failure.out_of_memory);
  CHECK(failure.memory_usage == "limit 1 GiB");
}

TEST_CASE("supervisor core: keeps memory facts that were known when the worker began to die") {
  Bench bench;
  bench.start();
  bench.step(failed(WorkerExit{0, 100, {true, SIGKILL}, true, "peak 1 GiB"}));
  bench.die(0, SIGKILL);  // muster may have killed it itself already, and requests nothing again
  CHECK(bench.core.result().failures.at(0).memory_usage == "peak 1 GiB");
}

TEST_CASE("supervisor core: a worker that lost a child process fails with the child's status") {
  Bench bench;
  bench.start();
  WorkerExit exit{0, 100, {true, SIGSEGV}, false, ""};
  exit.lost_child = "process 7 (engine)";
  bench.step(failed(exit));
  REQUIRE(bench.asked<SignalGroups>());
  bench.die(0, SIGKILL);  // by us
  const WorkerFailure& failure = bench.core.result().failures.at(0);
  CHECK(failure.status == ExitStatus{true, SIGSEGV});
  CHECK(describe_end(failure).starts_with("lost its process 7 (engine), killed by SIGSEGV"));
}

TEST_CASE("supervisor core: a worker whose memory is being freed is not overdue") {
  Bench bench = dying(settings(0, 1s));
  bench.die(0, SIGTERM);
  bench.now += 1s;
  bench.step(Tick{});  // the grace period has expired
  bench.wait_for_kill();
  bench.now += kKillTimeout;
  bench.step(Tick{});
  CHECK(bench.core.state() == State::killing);
  CHECK(bench.core.next_deadline() == TimePoint{} + 60s + kKillTimeoutBeforeRestart);
  SECTION("the worker exits") {
    bench.now += 10s;
    bench.die(1, SIGKILL);
    bench.step(NothingLeft{});
    CHECK(bench.core.result().overdue.empty());
    CHECK(bench.core.result().survivors.empty());
    CHECK(exit_code_of(bench.core.result()) == 128 + SIGKILL);
  }
  SECTION("the worker does not exit, but the launcher does") {
    bench.now = *bench.core.next_deadline();
    bench.step(Tick{});
    CHECK(bench.asked<Finish>());
    CHECK(bench.core.result().survivors.size() == 1);
  }
  SECTION("the user interrupts the job again") {
    bench.step(SignalReceived{SIGINT, 1});
    CHECK(bench.core.next_deadline() == bench.now + kKillTimeout);
    bench.now += kKillTimeout;
    bench.step(Tick{});
    CHECK(bench.asked<Finish>());
  }
}

TEST_CASE("supervisor core: a worker that keeps running is overdue, a dying one is not") {
  Bench bench = dying(settings(0, 1s));
  bench.now += 1s;
  bench.step(Tick{});
  CHECK(bench.core.result().overdue == std::vector{0});
  bench.wait_for_kill();
  bench.now += kKillTimeout;
  bench.step(Tick{});  // rank 0 cannot be killed, which does not explain the dying worker's delay
  CHECK(bench.asked<Finish>());
}

TEST_CASE("supervisor core: waits for both of two workers that are dying") {
  Bench bench = dying(settings(0, Duration::zero()));
  CHECK(bench.core.state() == State::killing);
  bench.now += kKillTimeout;
  bench.step(Tick{});
  CHECK(bench.asked<Finish>());  // nothing is known about rank 0
  Bench both = dying(settings(0, 1s));
  both.begin_to_die(0, SIGKILL);
  CHECK(both.effects.empty());
  both.now += 1s;
  both.step(Tick{});
  CHECK(both.core.result().overdue.empty());
  both.wait_for_kill();
  both.now += kKillTimeout;
  both.step(Tick{});
  CHECK_FALSE(both.asked<Finish>());
  both.die(0, SIGKILL);
  both.die(1, SIGKILL);
  both.step(NothingLeft{});
  REQUIRE(both.core.result().failures.size() == 2);
  CHECK(both.core.result().failures[0].local_rank == 1);
}

TEST_CASE(
    "supervisor core: a signal while an interrupted job's memory is freed still ends it in time") {
  Bench bench;
  bench.start();
  const TimePoint signalled = bench.now;
  bench.step(SignalReceived{SIGTERM, 1});
  bench.begin_to_die(0, SIGTERM);
  bench.begin_to_die(1, SIGTERM);
  bench.now += 30s;
  bench.step(Tick{});
  bench.wait_for_kill();
  CHECK(bench.now - signalled <= 30s + kSelfExitTime + kLeftoverGraceMin);
  bench.now += kKillTimeout;
  bench.step(Tick{});
  CHECK(bench.asked<Finish>());
  CHECK(bench.core.result().outcome == Outcome::interrupted);
}

TEST_CASE("supervisor core: notifies other nodes once, when a worker begins to die") {
  Bench bench = dying(shared_settings());
  REQUIRE(bench.asked<WorkerFailure>());
  CHECK(bench.asked<WorkerFailure>()->local_rank == 1);
  CHECK(bench.asked<WorkerFailure>()->run_time == 60s);
  CHECK_FALSE(bench.asked<WorkerFailure>()->after_stop);
  bench.die(1, SIGKILL);
  CHECK(bench.effects.empty());
  bench.die(0, SIGTERM);
  CHECK(bench.asked<WorkerFailure>()->after_stop);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  CHECK(bench.asked<TellGone>());
}

TEST_CASE(
    "supervisor core: exit code 75, used by a library that gives up, is an ordinary failure") {
  Bench bench{settings(1)};
  bench.start();
  bench.now += 60s;
  bench.exit(0, 75);
  REQUIRE(bench.local->warnings.size() == 1);
  CHECK(bench.local->warnings.front().find("code 75; restarting") != std::string::npos);
}
