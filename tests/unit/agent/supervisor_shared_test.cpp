// SPDX-License-Identifier: Apache-2.0
// The supervisor of one of many nodes: it reports, stops, and waits for the other nodes.
#include "supervisor_bench.hpp"

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

Bench running() {
  Bench bench{shared_settings()};
  bench.start();
  return bench;
}

Bench finished() {
  Bench bench = running();
  bench.exit(0, 0);
  bench.exit(1, 0);
  bench.step(NothingLeft{});
  REQUIRE(bench.core.state() == State::waiting);
  return bench;
}

RoundClosed closed(int exit_code) {
  Close close;
  close.succeeded = exit_code == 0;
  close.exit_code = exit_code;
  return {exit_code == 0 ? Outcome::succeeded : Outcome::failed, close, std::nullopt, {}};
}

// Workers that received a stop signal exit.
void end_workers(Bench& bench) {
  bench.die(0, SIGTERM);
  bench.die(1, SIGTERM);
  bench.step(GroupsEmpty{});
  REQUIRE(bench.asked<AwaitNothingLeft>());
  bench.step(NothingLeft{});
}

// The index of an effect among those of the last step; -1 if it is not among them.
template <class Effect>
int place_of(const Bench& bench) {
  for (std::size_t i = 0; i < bench.effects.size(); ++i) {
    if (std::holds_alternative<Effect>(bench.effects[i])) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace

TEST_CASE("shared round: waits for the first round, and handles signals meanwhile") {
  Bench bench{shared_settings()};
  bench.step(Started{});
  REQUIRE(bench.asked<AwaitRound>());
  CHECK(bench.asked<AwaitRound>()->attempt == 0);
  bench.step(RegroupNotice{"somebody came"});
  CHECK(bench.effects.empty());
  bench.spawn_all();
  CHECK(bench.core.state() == State::running);
}

TEST_CASE(
    "shared round: reports a failure at once and stops the workers without asking other nodes") {
  Bench bench = running();
  bench.now += 3s;
  bench.exit(1, 7);
  const auto* report = bench.asked<WorkerFailure>();
  REQUIRE(report);
  CHECK(report->rank == 1);
  CHECK(report->run_time == 3s);
  CHECK(place_of<WorkerFailure>(bench) < place_of<SignalGroups>(bench));
  CHECK(place_of<SignalGroups>(bench) < place_of<ExpectRound>(bench));
  bench.die(0, SIGTERM);
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  CHECK(bench.core.state() == State::joining);
  REQUIRE(bench.asked<TellGone>());
  // The other nodes wait for this message, so it precedes output on our console.
  CHECK(place_of<TellGone>(bench) < place_of<CloseAttempt>(bench));
  CHECK(bench.asked<AwaitRound>()->attempt == 1);
  bench.spawn_all();
}

TEST_CASE("shared round: later failures of the attempt are reported as such") {
  Bench bench = running();
  bench.exit(1, 7);
  bench.exit(0, 9);
  REQUIRE(bench.asked<WorkerFailure>());
  CHECK(bench.asked<WorkerFailure>()->rank == 0);
  CHECK(bench.asked<WorkerFailure>()->after_stop);
}

TEST_CASE("shared round: a worker that cannot be started is a failure like any other") {
  Bench bench{shared_settings()};
  bench.step(Started{});
  bench.step(RoundFormed{2, 4});
  bench.step(SpawnFailed{0, Error{Errc::not_found, "exec './x': not found"}});
  REQUIRE(bench.asked<WorkerFailure>());
  CHECK(bench.asked<WorkerFailure>()->rank == 4);
  CHECK(bench.asked<WorkerFailure>()->run_time == 0s);
  bench.step(NothingLeft{});
  CHECK(bench.asked<TellGone>());
}

TEST_CASE(
    "shared round: a regroup stops the workers with SIGTERM and then reports that they are gone") {
  Bench bench = running();
  bench.step(RegroupNotice{"a node was lost"});
  REQUIRE(bench.asked<SignalGroups>());
  CHECK(bench.asked<SignalGroups>()->signo == SIGTERM);
  end_workers(bench);
  CHECK(bench.asked<TellGone>());
  CHECK(bench.asked<AwaitRound>()->attempt == 1);
}

TEST_CASE(
    "shared round: fenced workers are killed at once, even if they were already being stopped") {
  Bench bench = running();
  const int before = GENERATE(0, 1, 2, 3);
  if (before > 0) {
    bench.step(RegroupNotice{"x"});
  }
  if (before > 1) {
    bench.die(0, SIGTERM);
    bench.die(1, SIGTERM);
    bench.step(GroupsEmpty{});
  }
  if (before > 2) {
    bench.wait(kSelfExitTime);
    bench.wait(30s);
    REQUIRE(bench.asked<KillWorkers>());
  }
  bench.step(Fenced{"no word from the coordinator"});
  CHECK(bench.asked<KillEverything>());
  CHECK_FALSE(bench.asked<SignalGroups>());
  bench.step(NothingLeft{});
  CHECK(bench.asked<TellGone>());
  CHECK(bench.core.state() == State::joining);
}

TEST_CASE("shared round: a finished node waits until the job is closed") {
  Bench bench = running();
  bench.exit(0, 0);
  bench.exit(1, 0);
  bench.step(NothingLeft{});
  CHECK(bench.asked<ReportFinished>());
  CHECK_FALSE(bench.asked<Finish>());
  CHECK_FALSE(bench.core.next_deadline());
  bench.step(RoundClosed{Outcome::succeeded, std::nullopt, std::nullopt, {}});
  CHECK(bench.asked<CloseAttempt>()->timeout == kConsoleTimeoutAtEnd);
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 0);
}

TEST_CASE("shared round: a finished node takes part in a regroup") {
  Bench bench = finished();
  bench.step(RegroupNotice{"rank 3 failed"});
  CHECK(bench.asked<TellGone>());
  CHECK(bench.asked<CloseAttempt>());
  CHECK(bench.asked<AwaitRound>()->attempt == 1);
  bench.spawn_all();
}

TEST_CASE("shared round: a regroup during the cleanup after finished workers is not lost") {
  Bench bench = running();
  bench.exit(0, 0);
  bench.exit(1, 0);
  REQUIRE(bench.core.state() == State::clearing);
  if (GENERATE(false, true)) {
    bench.wait(kSelfExitTime);
    CHECK(bench.asked<NameLeftovers>());
  }
  bench.step(RegroupNotice{"rank 3 failed"});
  CHECK(bench.core.next_deadline() <= bench.now + kSelfExitTime);
  bench.step(NothingLeft{});
  CHECK_FALSE(bench.asked<ReportFinished>());
  CHECK(bench.asked<TellGone>());
  CHECK(bench.asked<AwaitRound>());
}

TEST_CASE("shared round: the job's end stops the workers and sets every node's exit code") {
  Bench bench = running();
  bench.step(closed(7));
  CHECK(bench.asked<SignalGroups>());
  end_workers(bench);
  CHECK_FALSE(bench.asked<TellGone>());  // no node is left to receive it
  CHECK(bench.asked<Finish>());
  CHECK(bench.core.result().outcome == Outcome::failed);
  CHECK(exit_code_of(bench.core.result()) == 7);
}

TEST_CASE("shared round: the job's end counts in every state") {
  Bench waiting{shared_settings()};
  waiting.step(Started{});
  waiting.step(closed(3));
  CHECK(exit_code_of(waiting.core.result()) == 3);
  CHECK(waiting.asked<Finish>());
  Bench done = finished();
  done.step(closed(4));
  CHECK(done.asked<Finish>());
  CHECK(exit_code_of(done.core.result()) == 4);
  Bench stopping = running();
  stopping.exit(1, 7);
  stopping.step(closed(5));
  stopping.die(0, SIGTERM);
  stopping.step(GroupsEmpty{});
  CHECK(stopping.core.next_deadline() == stopping.now + kSelfExitTime);
  stopping.step(NothingLeft{});
  CHECK(exit_code_of(stopping.core.result()) == 5);
}

TEST_CASE("shared round: the job's end shortens a kill timeout that was meant for another round") {
  Bench bench = running();
  bench.exit(1, 7);
  bench.die(0, SIGTERM);
  bench.step(GroupsEmpty{});
  bench.wait(kSelfExitTime);
  bench.wait(30s);
  bench.wait(kSelfExitTimeInHurry);
  CHECK(bench.core.next_deadline() == bench.now - kSelfExitTimeInHurry + kKillTimeoutBeforeRestart);
  bench.step(closed(7));
  CHECK(bench.core.next_deadline() == bench.now + kKillTimeout);
}

TEST_CASE("shared round: a node that is refused exits with its error's code") {
  Bench bench{shared_settings()};
  bench.step(Started{});
  bench.step(
      RoundClosed{Outcome::not_started, std::nullopt, Error{Errc::timed_out, "nobody came"}, {}});
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 69);
}

TEST_CASE("shared round: a signal is announced to the other nodes, which let the node leave") {
  Bench bench = running();
  bench.step(SignalReceived{SIGTERM, 42});
  REQUIRE(bench.asked<LeaveRound>());
  CHECK(bench.asked<LeaveRound>()->reason == "asked to stop by SIGTERM");
  CHECK(bench.asked<SignalGroups>());
  end_workers(bench);
  CHECK(bench.asked<TellGone>());
  CHECK_FALSE(bench.asked<Finish>());
  bench.step(RoundClosed{Outcome::interrupted, std::nullopt, std::nullopt, {}});
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 128 + SIGTERM);
}

TEST_CASE("shared round: a node that leaves waits at most one second for the others") {
  Bench bench{shared_settings()};
  bench.step(Started{});
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(place_of<LeaveRound>(bench) < place_of<TellGone>(bench));
  CHECK(bench.core.next_deadline() == bench.now + kLeaveTimeout);
  bench.now += kLeaveTimeout / 2;
  bench.step(Tick{});
  CHECK(bench.effects.empty());
  bench.now += kLeaveTimeout / 2;
  bench.step(Tick{});
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 128 + SIGINT);
}

TEST_CASE("shared round: a second signal exits without waiting for the others") {
  Bench bench = finished();
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.asked<LeaveRound>());
  bench.now += 1ms;
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.effects.empty());  // the same request
  bench.now += 500ms;
  bench.step(SignalReceived{SIGINT, 0});
  CHECK(bench.asked<Finish>());
}

TEST_CASE("shared round: an interrupted node keeps that exit code, however the job ends") {
  Bench bench = running();
  bench.step(SignalReceived{SIGTERM, 1});
  bench.step(closed(7));
  end_workers(bench);
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) == 128 + SIGTERM);
}

TEST_CASE("shared round: handles a signal just before it would wait") {
  Bench bench = running();
  bench.exit(0, 0);
  bench.exit(1, 0);
  bench.step(SignalReceived{SIGTERM, 1});
  CHECK(bench.asked<LeaveRound>());
  bench.step(NothingLeft{});
  CHECK_FALSE(bench.asked<ReportFinished>());
  CHECK(bench.asked<TellGone>());
}

TEST_CASE("shared round: if processes cannot be killed, it does not report them as gone") {
  Bench bench = running();
  const bool told_to_end = GENERATE(false, true);
  bench.step(told_to_end ? SupervisorEvent{SignalReceived{SIGTERM, 1}}
                         : SupervisorEvent{RegroupNotice{"x"}});
  for (int i = 0; i < 3; ++i) {
    bench.wait(30s);  // the workers' grace period: exit on their own, or after SIGTERM
  }
  bench.wait(30s);
  CHECK(bench.asked<NameSurvivors>());
  CHECK_FALSE(bench.asked<TellGone>());
  CHECK(bench.asked<Finish>());
  CHECK(exit_code_of(bench.core.result()) != 0);
}

TEST_CASE("shared round: the guard's death ends a waiting node") {
  Bench bench = finished();
  bench.step(LinkLost{});
  CHECK(bench.asked<Finish>());
  CHECK(bench.core.result().outcome == Outcome::orphaned);
}
