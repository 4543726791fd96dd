// SPDX-License-Identifier: Apache-2.0
// A scheduler announces that it will stop the job: the workers save and exit, those that are left
// at the deadline are killed, and nothing restarts.
#include "supervisor_bench.hpp"

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

Bench preempted(BenchSettings chosen = settings(3), int others = 0, Preempts what = Preempts::job) {
  chosen.shared = others > 0;
  Bench bench(chosen);
  bench.others = others;
  bench.start();
  bench.now += 1min;
  bench.step(Preempted{"SIGTERM", bench.now + 30s, what});
  CHECK(bench.core.state() == State::running);
  CHECK(bench.core.next_deadline() == bench.now + 30s);
  return bench;
}

// As the shell does, which asks the core whether a worker has succeeded.
void exit_with(Bench& bench, int local_rank, int code) {
  const WorkerExit exit{local_rank, 100 + local_rank, {false, code}, false, {}};
  bench.step(bench.core.is_success(exit.status)
                 ? WorkerExited{local_rank, std::nullopt, code == kPreemptedCode}
                 : exited(exit));
}

void end_all(Bench& bench) {
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
}

}  // namespace

TEST_CASE("preempt: workers that save and exit with 0 or 75 have succeeded") {
  Bench bench = preempted();
  exit_with(bench, 0, 0);
  CHECK(bench.core.state() == State::running);
  exit_with(bench, 1, kPreemptedCode);
  CHECK(bench.asked<ReportSuccess>());
  end_all(bench);
  CHECK(bench.core.state() == State::done);
  CHECK(bench.core.result().outcome == Outcome::succeeded);
  CHECK(is_preempted(bench.core.result()));
  CHECK(exit_code_of(bench.core.result()) == kPreemptedCode);
  CHECK(bench.core.result().preemption->why == "SIGTERM");
}

TEST_CASE("preempt: without a notice, 75 is a failure") {
  Bench bench(settings(1));
  bench.start();
  CHECK_FALSE(bench.core.is_success({false, kPreemptedCode}));
  bench.step(Preempted{"x", bench.now + 1s});
  CHECK(bench.core.is_success({false, kPreemptedCode}));
  CHECK_FALSE(bench.core.is_success({true, kPreemptedCode}));
  CHECK_FALSE(bench.core.is_success({false, 74}));
}

TEST_CASE("preempt: workers that are left at the deadline are killed, and have not failed") {
  Bench bench = preempted();
  exit_with(bench, 0, kPreemptedCode);
  bench.wait(29s);
  CHECK(bench.core.state() == State::running);
  bench.wait(1s);
  CHECK(bench.core.state() == State::killing);
  REQUIRE(bench.asked<TellLate>());
  CHECK(bench.asked<TellLate>()->local_ranks == std::vector{1});
  CHECK(bench.asked<KillWorkers>());
  bench.die(1, SIGKILL);
  end_all(bench);
  CHECK(bench.core.state() == State::done);
  CHECK(bench.core.result().failures.empty());
  CHECK(exit_code_of(bench.core.result()) == kPreemptedCode);
}

TEST_CASE("preempt: a failure ends the job, although restarts are left") {
  Bench bench = preempted();
  bench.exit(1, 9);
  CHECK(bench.core.state() == State::stopping);
  REQUIRE(bench.local);
  CHECK(bench.local->warnings.empty());
  bench.die(0, SIGTERM);
  end_all(bench);
  CHECK(bench.core.state() == State::done);
  CHECK(bench.core.result().outcome == Outcome::failed);
  CHECK(exit_code_of(bench.core.result()) == 9);
  CHECK(bench.core.result().verdict == kPreemptedVerdict);
}

TEST_CASE("preempt: a stop after the notice lasts no longer than the deadline") {
  Bench bench = preempted(settings(3, 5min));
  bench.wait(10s);
  bench.exit(1, 9);
  CHECK(bench.core.state() == State::stopping);
  bench.wait(20s);
  CHECK(bench.core.result().overdue == std::vector{0});
}

TEST_CASE("preempt: no rank is replaced after the notice") {
  Bench bench(elastic_settings());
  bench.start();
  bench.step(WorkerReady{0, 1});
  bench.step(WorkerReady{1, 1});
  bench.step(Preempted{"x", bench.now + 30s});
  bench.exit(1, 9);
  CHECK_FALSE(bench.asked<AskMend>());
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("preempt: a signal after the notice stops the workers, and determines the exit code") {
  Bench bench = preempted();
  bench.step(SignalReceived{SIGINT, 1});
  CHECK(bench.core.state() == State::stopping);
  bench.die(0, SIGINT);
  bench.die(1, SIGINT);
  end_all(bench);
  CHECK(bench.core.state() == State::done);
  CHECK_FALSE(is_preempted(bench.core.result()));
  CHECK(exit_code_of(bench.core.result()) == 128 + SIGINT);
}

TEST_CASE("preempt: only the first notice counts") {
  Bench bench = preempted();
  bench.step(Preempted{"again", bench.now + 1h});
  CHECK(bench.core.result().preemption->why == "SIGTERM");
  CHECK(bench.core.next_deadline() == bench.now + 30s);
}

TEST_CASE("preempt: a node leaves instead of starting another round") {
  for (const bool formed : {false, true}) {
    Bench bench = preempted(settings(), 2);
    bench.step(RegroupNotice{"node 'b' is gone"});
    bench.die(0, SIGTERM);
    bench.die(1, SIGTERM);
    end_all(bench);
    CHECK(bench.core.state() == State::joining);
    if (formed) {
      bench.step(RoundFormed{2, 0, 2});
    } else {
      bench.wait(29s);
      CHECK(bench.core.state() == State::joining);
      bench.wait(1s);
    }
    CHECK(bench.core.state() == State::waiting);
    CHECK(bench.asked<LeaveRound>());
    CHECK_FALSE(bench.asked<SpawnWorker>());
    bench.step(RoundClosed{Outcome::interrupted, {}, {}, {}});
    CHECK(exit_code_of(bench.core.result()) == kPreemptedCode);
  }
}

TEST_CASE("preempt: a node that is called to a new round after the deadline leaves it") {
  Bench bench = preempted(settings(), 2);
  bench.wait(30s);
  bench.die(0, SIGKILL);
  bench.die(1, SIGKILL);
  end_all(bench);
  REQUIRE(bench.core.state() == State::waiting);
  bench.step(RegroupNotice{"node 'b' is gone"});
  REQUIRE(bench.core.state() == State::joining);
  CHECK(bench.core.next_deadline() == bench.now + kPreemptedCloseTime);
  bench.wait(kPreemptedCloseTime);
  CHECK(bench.asked<LeaveRound>());
}

TEST_CASE("preempt: the leader is lost while workers are being killed at the deadline") {
  Bench bench = preempted(settings(), 2);
  bench.wait(30s);
  REQUIRE(bench.core.state() == State::killing);
  bench.step(RegroupNotice{"node 'b' is gone"});
  bench.die(0, SIGKILL);
  bench.die(1, SIGKILL);
  end_all(bench);
  CHECK(bench.core.state() == State::joining);
  bench.wait(kPreemptedCloseTime);
  CHECK(bench.asked<LeaveRound>());
}

TEST_CASE("preempt: a node that learns of it before its workers start does not start them") {
  BenchSettings chosen = settings();
  chosen.shared = true;
  Bench bench(chosen);
  bench.step(Started{});
  bench.step(Preempted{"SIGTERM", bench.now + 30s});
  CHECK(bench.core.state() == State::joining);
  bench.step(RoundFormed{2, 0, 2});
  CHECK(bench.asked<LeaveRound>());
  CHECK_FALSE(bench.asked<SpawnWorker>());
  CHECK(bench.core.state() == State::waiting);
}

TEST_CASE("preempt: the leader closes the job while workers are being killed at the deadline") {
  Bench bench = preempted(settings(), 2);
  bench.wait(30s);
  CHECK(bench.core.state() == State::killing);
  bench.step(RoundClosed{});
  bench.die(0, SIGKILL);
  bench.die(1, SIGKILL);
  bench.step(NothingLeft{});
  CHECK(bench.core.state() == State::done);
  CHECK(exit_code_of(bench.core.result()) == kPreemptedCode);
}

TEST_CASE("preempt: workers that cannot be killed do not keep the node") {
  Bench bench = preempted(settings(), 2);
  bench.wait(30s);
  while (bench.core.state() == State::killing) {
    bench.now = *bench.core.next_deadline();
    bench.step(Tick{});
  }
  CHECK(bench.core.state() == State::done);
  CHECK(bench.core.result().survivors.size() == 2);
  CHECK(exit_code_of(bench.core.result()) == kPreemptedCode);
}

TEST_CASE("preempt: a node that is stopped leaves the others when its workers have saved") {
  Bench bench = preempted(settings(), 2, Preempts::this_node);
  exit_with(bench, 0, kPreemptedCode);
  exit_with(bench, 1, 0);
  end_all(bench);
  CHECK_FALSE(bench.asked<ReportFinished>());
  REQUIRE(bench.asked<LeaveRound>());
  CHECK(bench.asked<LeaveRound>()->is_planned);
  CHECK(bench.asked<TellGone>());
  bench.step(RoundClosed{Outcome::interrupted, {}, {}, {}});
  CHECK(exit_code_of(bench.core.result()) == kPreemptedCode);
}

TEST_CASE("preempt: the other nodes wait until the node that is stopped has left") {
  Bench bench = preempted(settings(), 2, Preempts::other_node);
  exit_with(bench, 0, kPreemptedCode);
  exit_with(bench, 1, kPreemptedCode);
  end_all(bench);
  CHECK(bench.core.state() == State::waiting);
  CHECK_FALSE(bench.asked<ReportFinished>());
  CHECK_FALSE(bench.asked<LeaveRound>());
  bench.step(RegroupNotice{"node 'b' leaves", true});
  CHECK(bench.core.state() == State::joining);
  CHECK(bench.asked<TellGone>());
  bench.step(RoundFormed{2, 0, 0});
  CHECK(bench.core.state() == State::running);
  CHECK_FALSE(bench.core.is_success({false, kPreemptedCode}));
}

TEST_CASE("preempt: a node that leaves earlier does not stop workers that still save") {
  Bench bench = preempted(settings(), 2, Preempts::other_node);
  bench.step(RegroupNotice{"node 'b' leaves", true});
  CHECK(bench.core.state() == State::running);
  CHECK_FALSE(bench.asked<SignalGroups>());
  exit_with(bench, 0, kPreemptedCode);
  exit_with(bench, 1, kPreemptedCode);
  end_all(bench);
  CHECK(bench.core.state() == State::joining);
  CHECK(bench.asked<TellGone>());
}

TEST_CASE("preempt: the loss of another node stops workers that still save") {
  Bench bench = preempted(settings(), 2, Preempts::other_node);
  bench.step(RegroupNotice{"node 'c' is gone"});
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("preempt: a failure before a node leaves uses up a restart") {
  for (const Preempts what : {Preempts::other_node, Preempts::this_node}) {
    Bench bench = preempted(settings(), 2, what);
    bench.exit(1, 9);
    REQUIRE(bench.asked<WorkerFailure>());
    CHECK_FALSE(bench.asked<WorkerFailure>()->preempted);
  }
}

TEST_CASE("preempt: if all workers exit with 0, the job is complete on every node") {
  for (const Preempts what : {Preempts::other_node, Preempts::this_node}) {
    Bench bench = preempted(settings(), 2, what);
    exit_with(bench, 0, 0);
    exit_with(bench, 1, 0);
    end_all(bench);
    CHECK(bench.asked<ReportFinished>());
    CHECK_FALSE(bench.asked<LeaveRound>());
  }
}

TEST_CASE("preempt: a node does not wait for ever for one that has finished") {
  Bench bench = preempted(settings(), 2, Preempts::other_node);
  exit_with(bench, 0, kPreemptedCode);
  exit_with(bench, 1, kPreemptedCode);
  end_all(bench);
  REQUIRE(bench.core.next_deadline() == bench.now + 30s + kDepartureTime);
  bench.wait(30s + kDepartureTime);
  CHECK(bench.asked<ReportFinished>());
  bench.step(RoundClosed{});
  CHECK(exit_code_of(bench.core.result()) == kPreemptedCode);
}

TEST_CASE("preempt: workers that are left at the deadline do not keep a node from leaving") {
  Bench bench = preempted(settings(), 2, Preempts::this_node);
  bench.wait(30s);
  bench.die(0, SIGKILL);
  bench.die(1, SIGKILL);
  end_all(bench);
  CHECK(bench.asked<LeaveRound>());
}

TEST_CASE("preempt: a second node that is stopped leaves, too, and so does the whole job") {
  Bench bench = preempted(settings(), 2, Preempts::other_node);
  bench.step(Preempted{"SIGTERM", bench.now + 10s, Preempts::this_node});
  CHECK(bench.core.next_deadline() == bench.now + 10s);
  exit_with(bench, 0, kPreemptedCode);
  bench.step(Preempted{"SIGTERM", bench.now + 5s, Preempts::job});
  CHECK(bench.core.next_deadline() == bench.now + 5s);
  exit_with(bench, 1, kPreemptedCode);
  end_all(bench);
  CHECK(bench.asked<ReportFinished>());
  CHECK_FALSE(bench.asked<LeaveRound>());
}

TEST_CASE("preempt: a node whose workers cannot be killed does not continue without another one") {
  Bench bench = preempted(settings(), 2, Preempts::other_node);
  bench.wait(30s);
  while (bench.core.state() == State::killing) {
    bench.now = *bench.core.next_deadline();
    bench.step(Tick{});
  }
  CHECK(bench.core.state() == State::done);
  CHECK(exit_code_of(bench.core.result()) == kPreemptedCode);
}
