// SPDX-License-Identifier: Apache-2.0
// --restart=rank: failed workers are replaced while the others continue to run.
#include "supervisor_bench.hpp"

#include <csignal>
#include <string>
#include <string_view>
#include <vector>

using namespace muster;
using namespace muster::testing;
using namespace std::chrono_literals;

namespace {

constexpr int kWorkers = 3;

void resume(Bench& bench, std::uint64_t epoch) {
  for (int local_rank = 0; local_rank < kWorkers; ++local_rank) {
    bench.step(WorkerReady{local_rank, epoch});
  }
}

// All workers run and have the job's state.
Bench elastic(int max_restarts = 10) {
  Bench bench{elastic_settings(max_restarts)};
  bench.nproc = kWorkers;
  bench.start();
  resume(bench, 1);
  REQUIRE(bench.core.state() == State::running);
  return bench;
}

// The same, but the test decides on mends.
Bench shared_elastic() {
  BenchSettings chosen = elastic_settings();
  chosen.shared = true;
  Bench bench{chosen};
  bench.nproc = kWorkers;
  bench.start();
  resume(bench, 1);
  return bench;
}

// The libraries of these workers confirm the news of a loss.
void hear(Bench& bench, const std::vector<int>& local_ranks, Duration longest_pause = {}) {
  for (const int local_rank : local_ranks) {
    bench.step(WorkerHeard{local_rank, longest_pause});
  }
}

// These workers wait until all workers have the job's state.
void arrive(Bench& bench, const std::vector<int>& local_ranks) {
  for (const int local_rank : local_ranks) {
    bench.step(WorkerHeard{local_rank, {}, true});
  }
}

std::string warning(const Bench& bench) {
  const auto* told = bench.asked<WarnOfMend>();
  return told == nullptr ? "" : told->text;
}

// The reason why all workers are restarted; empty if they are not.
std::string fallback(const Bench& bench) {
  const std::string_view prefix = "cannot replace only failed ranks: ";
  const std::string text = warning(bench);
  return text.starts_with(prefix) ? text.substr(prefix.size()) : "";
}

// All survivors have confirmed the loss in time.
void wait_for_look(Bench& bench) {
  CHECK(*bench.core.next_deadline() == bench.now + kHeardTimeout);
  bench.wait(kHeardTimeout);
  CHECK(bench.asked<KillTree>() == nullptr);
}

void replace(Bench& bench, int local_rank, pid_t pid) {
  REQUIRE(bench.asked<SpawnWorker>() != nullptr);
  CHECK(bench.asked<SpawnWorker>()->local_rank == local_rank);
  bench.step(WorkerSpawned{local_rank, pid});
}

}  // namespace

TEST_CASE("supervisor mend: a worker that has left cannot continue, so all restart") {
  SECTION("it left before the failure") {
    Bench bench = elastic();
    bench.step(WorkerLeft{0});
    bench.die(1, SIGKILL);
    CHECK(fallback(bench) == "rank 0 has left muster.elastic.run");
    CHECK(bench.core.state() == State::stopping);
  }
  SECTION("it leaves during the mend") {
    Bench bench = elastic();
    bench.die(1, SIGKILL);
    replace(bench, 1, 201);
    bench.step(WorkerLeft{0});
    CHECK(fallback(bench) == "rank 0 has left muster.elastic.run");
    CHECK(bench.core.state() == State::stopping);
  }
  SECTION("it fails itself") {
    Bench bench = elastic();
    bench.step(WorkerLeft{1});
    bench.die(1, SIGKILL);
    CHECK(fallback(bench).empty());
    replace(bench, 1, 201);
    resume(bench, 2);
    CHECK(bench.core.state() == State::running);
  }
}

TEST_CASE("supervisor mend: a failed worker is replaced, and no other worker gets a signal") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  CHECK(bench.core.state() == State::mending);
  REQUIRE(bench.asked<KillTree>() != nullptr);
  CHECK(bench.asked<KillTree>()->local_rank == 1);
  CHECK(bench.asked<SignalGroups>() == nullptr);
  REQUIRE(bench.asked<CloseFailures>() != nullptr);
  CHECK(bench.asked<CloseFailures>()->failures.size() == 1);
  replace(bench, 1, 201);
  bench.now += 70ms;
  resume(bench, 2);
  CHECK(bench.core.state() == State::running);
  REQUIRE(bench.asked<TellMended>() != nullptr);
  CHECK(bench.asked<TellMended>()->local_ranks == std::vector{1});
  CHECK(bench.asked<TellMended>()->time == 70ms);
  CHECK_FALSE(bench.core.next_deadline());
  for (int local_rank = 0; local_rank < kWorkers; ++local_rank) {
    bench.exit(local_rank, 0);
  }
  bench.step(NothingLeft{});
  CHECK(bench.core.result().outcome == Outcome::succeeded);
}

TEST_CASE("supervisor mend: a replacement starts after the dying worker was reaped") {
  Bench bench = elastic();
  bench.begin_to_die(1, SIGKILL);
  CHECK(bench.core.state() == State::mending);
  CHECK(bench.asked<KillTree>() != nullptr);
  CHECK(bench.asked<SpawnWorker>() == nullptr);
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
}

TEST_CASE("supervisor mend: two workers that fail at once are replaced together") {
  Bench bench = elastic();
  bench.begin_to_die(1, SIGKILL);
  bench.die(2, SIGKILL);
  CHECK(bench.core.state() == State::mending);
  CHECK(bench.asked<SpawnWorker>() == nullptr);
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  replace(bench, 2, 202);
  CHECK(bench.local->warnings.size() == 2);
  resume(bench, 2);
  CHECK(bench.core.state() == State::mending);  // that was the epoch of the first request
  resume(bench, 3);
  CHECK(bench.core.state() == State::running);
  CHECK(bench.asked<TellMended>()->local_ranks == std::vector{1, 2});
}

TEST_CASE("supervisor mend: a replacement that fails is replaced, too") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  bench.die(1, SIGSEGV);
  replace(bench, 1, 202);
  resume(bench, 3);
  CHECK(bench.core.state() == State::running);
  CHECK(bench.core.result().failures.empty());
}

TEST_CASE("supervisor mend: a failure of the last worker that has the state restarts all") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  bench.die(0, SIGKILL);
  replace(bench, 0, 200);
  bench.die(2, SIGKILL);
  CHECK(fallback(bench) == "no remaining rank has the job's state");
  CHECK(bench.core.state() == State::stopping);
  CHECK(bench.local->warnings.back().contains("restarting all workers: restart 3 of 10"));
}

TEST_CASE("supervisor mend: workers that cannot survive a mend are restarted together") {
  Bench bench{elastic_settings()};
  bench.nproc = kWorkers;
  bench.start();
  bench.step(WorkerReady{0, 1});
  bench.die(1, SIGKILL);
  CHECK(fallback(bench) == "rank 2 has not entered muster.elastic.run");
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("supervisor mend: a worker that has finished cannot come back") {
  Bench bench = elastic();
  bench.exit(0, 0);
  bench.die(1, SIGKILL);
  CHECK(fallback(bench) == "rank 0 has finished");
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("supervisor mend: a worker that finishes during a mend ends it, at no further cost") {
  Bench bench = elastic(1);
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  bench.exit(0, 0);
  CHECK(fallback(bench) == "rank 0 has finished");
  CHECK(bench.core.state() == State::stopping);
  CHECK(bench.local->warnings.size() == 1);
}

TEST_CASE("supervisor mend: workers that do not resume in time are restarted") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  hear(bench, {0, 2});
  bench.step(WorkerReady{0, 2});
  bench.step(WorkerReady{1, 2});
  wait_for_look(bench);
  CHECK(*bench.core.next_deadline() == bench.now + kMendTimeoutMin - kHeardTimeout);
  bench.wait(kMendTimeoutMin - kHeardTimeout);
  CHECK(fallback(bench) == "rank 2 did not resume within 30s");
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("supervisor mend: the ranks that the others wait for are named") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  hear(bench, {0, 2});
  SECTION("survivors and replacements") {
    arrive(bench, {0});
    bench.wait(kHeardTimeout);
    CHECK(warning(bench) ==
          "recovery is waiting up to 30s for rank 2 (still in a step) and rank 1 (still starting)");
    arrive(bench, {1});
    bench.wait(kMendTimeoutMin - kHeardTimeout);
    CHECK(fallback(bench) == "rank 2 did not resume within 30s");
  }
  SECTION("nobody, if all have arrived") {
    arrive(bench, {0, 1, 2});
    bench.wait(kHeardTimeout);
    CHECK(warning(bench).empty());
    bench.wait(kMendTimeoutMin - kHeardTimeout);
    CHECK(fallback(bench) == "the ranks did not resume within 30s");
  }
  SECTION("an arrival counts until the worker works") {
    arrive(bench, {0, 1, 2});
    resume(bench, 2);
    bench.die(1, SIGKILL);
    replace(bench, 1, 202);
    hear(bench, {0, 2});
    bench.wait(kHeardTimeout);
    CHECK(warning(bench) ==
          "recovery is waiting up to 30s for ranks 0, 2 (still in a step) and rank 1 (still "
          "starting)");
  }
  SECTION("an arrival does not count for the replacement") {
    arrive(bench, {0, 1});
    bench.die(1, SIGKILL);
    replace(bench, 1, 202);
    bench.wait(kHeardTimeout);
    CHECK(warning(bench) ==
          "recovery is waiting up to 30s for rank 2 (still in a step) and rank 1 (still starting)");
  }
}

TEST_CASE("supervisor mend: arrivals at the start of the job are not the news of a loss") {
  Bench bench{elastic_settings()};
  bench.nproc = kWorkers;
  bench.start();
  arrive(bench, {0, 1, 2});
  resume(bench, 1);
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  hear(bench, {0});
  bench.wait(kHeardTimeout);
  REQUIRE(bench.asked<KillTree>() != nullptr);
  CHECK(bench.asked<KillTree>()->local_rank == 2);
}

TEST_CASE("supervisor mend: the time to resume grows with the pauses between steps") {
  Bench bench{elastic_settings()};
  bench.nproc = kWorkers;
  bench.start();
  SECTION("and with the time that the workers took to start") {
    bench.now += 40s;
    resume(bench, 1);
    bench.die(1, SIGKILL);
    hear(bench, {0, 2});
    wait_for_look(bench);
    CHECK(*bench.core.next_deadline() == bench.now + 120s - kHeardTimeout);
  }
  SECTION("of any worker") {
    resume(bench, 1);
    bench.die(1, SIGKILL);
    hear(bench, {0, 2}, 24h);
    wait_for_look(bench);
    CHECK(*bench.core.next_deadline() == bench.now + kMendTimeoutMax - kHeardTimeout);
    bench = elastic();
    bench.die(1, SIGKILL);
    hear(bench, {0, 2}, 20s);
    wait_for_look(bench);
    CHECK(*bench.core.next_deadline() == bench.now + 60s - kHeardTimeout);
    bench.wait(60s - kHeardTimeout);
    CHECK(fallback(bench) == "rank 0 did not resume within 60s");
  }
}

TEST_CASE("supervisor mend: pauses before a restart of all workers do not count after it") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  hear(bench, {0, 2}, 24h);
  bench.step(RegroupNotice{"a node joins"});
  for (const int local_rank : {0, 2}) {
    bench.die(local_rank, SIGTERM);
  }
  bench.step(GroupsEmpty{});
  bench.step(NothingLeft{});
  bench.spawn_all();
  resume(bench, 3);
  bench.die(1, SIGKILL);
  hear(bench, {0, 2});
  wait_for_look(bench);
  CHECK(*bench.core.next_deadline() == bench.now + kMendTimeoutMin - kHeardTimeout);
}

TEST_CASE("supervisor mend: a survivor that does not hear of the loss is killed and replaced") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  hear(bench, {0});
  SECTION("in time") {
    bench.wait(kHeardTimeout);
    REQUIRE(bench.asked<KillTree>() != nullptr);
    CHECK(bench.asked<KillTree>()->local_rank == 2);
    CHECK(bench.asked<KillTree>()->deaf);
    CHECK(bench.core.state() == State::mending);
    bench.die(2, SIGKILL);
    CHECK(fallback(bench).empty());
    replace(bench, 2, 202);
    resume(bench, 3);
    CHECK(bench.core.state() == State::running);
  }
  SECTION("but not if no restart is left for it") {
    bench = elastic(1);
    bench.die(1, SIGKILL);
    replace(bench, 1, 201);
    hear(bench, {0});
    bench.wait(kHeardTimeout);
    CHECK(bench.asked<KillTree>() == nullptr);
    CHECK(fallback(bench) == "rank 2 did not react to the loss of another rank");
  }
  SECTION("but not if it is already dying, after another one") {
    bench = elastic();
    bench.begin_to_die(1, SIGKILL);
    bench.begin_to_die(2, SIGKILL);
    hear(bench, {0});
    bench.wait(kHeardTimeout);
    CHECK(bench.asked<KillTree>() == nullptr);
  }
  SECTION("but it cannot be killed, so all restart") {
    bench.wait(kHeardTimeout);
    bench.wait(kMendTimeoutMin - kHeardTimeout);
    CHECK(fallback(bench).starts_with("rank 0 did not resume"));
  }
  SECTION("and its answer is not read yet, because the agent itself was stopped") {
    bench.wait(kHeardTimeout + 2s);
    CHECK(bench.asked<KillTree>() == nullptr);
    hear(bench, {2});
    bench.wait(kHeardTimeout);
    CHECK(bench.asked<KillTree>() == nullptr);
    CHECK(bench.core.state() == State::mending);
  }
}

TEST_CASE("supervisor mend: the last workers that have the state are not killed") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  bench.wait(kHeardTimeout);
  CHECK(bench.asked<KillTree>() == nullptr);
  resume(bench, 2);
  CHECK(bench.core.state() == State::running);
}

TEST_CASE("supervisor mend: no time passes for workers that Ctrl-Z has stopped") {
  Bench bench = elastic();
  bench.step(SignalReceived{SIGTSTP, 1});
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  for (int i = 0; i < 100; ++i) {
    bench.wait(kHeardTimeout);
    CHECK(bench.asked<KillTree>() == nullptr);
  }
  bench.step(SignalReceived{SIGCONT, 1});
  CHECK(*bench.core.next_deadline() == bench.now + kHeardTimeout);
  hear(bench, {0, 2});
  wait_for_look(bench);
  CHECK(*bench.core.next_deadline() == bench.now + kMendTimeoutMin - kHeardTimeout);
  resume(bench, 2);
  CHECK(bench.core.state() == State::running);
}

TEST_CASE("supervisor mend: the time to resume starts again if the agent was stopped") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  bench.wait(kMendTimeoutMin + kHeardTimeout);
  hear(bench, {0, 2});
  wait_for_look(bench);
  CHECK(*bench.core.next_deadline() == bench.now + kMendTimeoutMin - kHeardTimeout);
  CHECK(fallback(bench).empty());
}

TEST_CASE("supervisor mend: only survivors have to hear of a loss") {
  SECTION("not a replacement, whether it starts or already works") {
    Bench bench = elastic();
    bench.die(1, SIGKILL);
    replace(bench, 1, 201);
    hear(bench, {0, 2});
    bench.step(WorkerReady{1, 2});
    bench.wait(kHeardTimeout);
    CHECK(bench.asked<KillTree>() == nullptr);
  }
  SECTION("once, also while the failure is held, and in each mend") {
    Bench bench = shared_elastic();
    hear(bench, {0, 2});
    bench.die(1, SIGKILL);
    wait_for_look(bench);
    bench.step(MendFormed{1, 2});
    replace(bench, 1, 201);
    resume(bench, 2);
    bench.die(1, SIGKILL);
    hear(bench, {0});
    bench.wait(kHeardTimeout);
    REQUIRE(bench.asked<KillTree>() != nullptr);
    CHECK(bench.asked<KillTree>()->local_rank == 2);
  }
}

TEST_CASE("supervisor mend: without restarts left, the job fails with the failure") {
  Bench bench = elastic(1);
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  resume(bench, 2);
  bench.die(2, SIGSEGV);
  CHECK(bench.core.state() == State::stopping);
  CHECK(bench.core.result().verdict == "all 1 restarts are used up");
  REQUIRE(bench.core.result().failures.size() == 1);
  CHECK(bench.core.result().failures.front().rank == 2);
}

TEST_CASE("supervisor mend: a stop request during a mend stops all workers") {
  Bench bench = elastic();
  bench.die(1, SIGKILL);
  replace(bench, 1, 201);
  bench.step(SignalReceived{SIGTERM, 1});
  CHECK(bench.core.state() == State::stopping);
  CHECK(bench.asked<SignalGroups>() != nullptr);
  bench.step(WorkerReady{0, 2});
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("supervisor mend: an answer to an earlier request does not count") {
  Bench bench = shared_elastic();
  bench.die(1, SIGKILL);
  bench.die(2, SIGKILL);
  REQUIRE(bench.asked<AskMend>()->number == 2);
  CHECK(bench.asked<AskMend>()->local_ranks == std::vector{1, 2});
  bench.step(MendFormed{1, 2});
  CHECK(bench.asked<SpawnWorker>() == nullptr);
  bench.step(MendFormed{2, 3});
  replace(bench, 1, 201);
  replace(bench, 2, 202);
}

TEST_CASE("supervisor mend: a refused mend restarts all workers") {
  Bench bench = shared_elastic();
  bench.die(1, SIGKILL);
  bench.step(MendRefused{1, "x"});
  CHECK(fallback(bench) == "x");
  CHECK(bench.asked<WorkerFailure>() != nullptr);
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("supervisor mend: this node reports once per epoch that all its workers are ready") {
  Bench bench = shared_elastic();
  REQUIRE(bench.asked<TellReady>() != nullptr);
  CHECK(bench.asked<TellReady>()->epoch == 1);
  bench.step(WorkerReady{1, 1});
  CHECK(bench.asked<TellReady>() == nullptr);
  bench.die(1, SIGKILL);
  CHECK(bench.asked<AskMend>()->holds_state);
  bench.step(MendFormed{1, 2});
  replace(bench, 1, 201);
  resume(bench, 2);
  REQUIRE(bench.asked<TellReady>() != nullptr);
  CHECK(bench.asked<TellReady>()->epoch == 2);
}

TEST_CASE("supervisor mend: workers on other nodes are replaced") {
  Bench bench = shared_elastic();
  bench.step(MendFormed{0, 5});
  CHECK(bench.core.state() == State::mending);
  CHECK(bench.asked<SpawnWorker>() == nullptr);
  bench.now += 70ms;
  resume(bench, 5);
  CHECK(bench.core.state() == State::running);
  REQUIRE(bench.asked<TellMended>() != nullptr);
  CHECK(bench.asked<TellMended>()->local_ranks.empty());
  CHECK(bench.asked<TellMended>()->time == 70ms);
}

TEST_CASE("supervisor mend: a mend of other nodes does not answer this node's request") {
  Bench bench = shared_elastic();
  bench.begin_to_die(1, SIGKILL);
  bench.step(MendFormed{0, 5});
  bench.die(1, SIGKILL);
  CHECK(bench.asked<SpawnWorker>() == nullptr);
  bench.step(MendFormed{1, 6});
  replace(bench, 1, 201);
  bench.step(MendFormed{0, 7});  // a replacement that has started continues
  resume(bench, 6);
  CHECK(bench.core.state() == State::mending);
  resume(bench, 7);
  CHECK(bench.core.state() == State::running);
}

TEST_CASE("supervisor mend: the last worker of a node is replaced if another node has the state") {
  BenchSettings chosen = elastic_settings();
  chosen.shared = true;
  Bench bench{chosen};
  bench.nproc = 1;
  bench.others = 2;
  bench.start();
  bench.step(WorkerReady{0, 1});
  bench.die(0, SIGKILL);
  REQUIRE(bench.asked<AskMend>() != nullptr);
  CHECK_FALSE(bench.asked<AskMend>()->holds_state);
  bench.step(GroupsEmpty{});
  bench.step(MendFormed{1, 2});
  replace(bench, 0, 201);
}

TEST_CASE("supervisor mend: a node whose worker has finished ends a mend of other nodes") {
  Bench bench = shared_elastic();
  bench.exit(0, 0);
  bench.step(MendFormed{0, 2});
  REQUIRE(bench.asked<EndMend>() != nullptr);
  CHECK(bench.asked<EndMend>()->reason == "rank 0 has finished");
  CHECK(bench.asked<WorkerFailure>() == nullptr);
  CHECK(bench.core.state() == State::stopping);
}

TEST_CASE("supervisor mend: a request without an answer counts as a failure when it ends") {
  Bench bench = shared_elastic();
  bench.die(1, SIGKILL);
  hear(bench, {0, 2});
  wait_for_look(bench);
  bench.wait(kMendTimeoutMin - kHeardTimeout);
  CHECK(bench.asked<EndMend>() != nullptr);
  CHECK(bench.asked<WorkerFailure>() != nullptr);
}

TEST_CASE("supervisor mend: a failure that a mend has counted is not reported again") {
  Bench bench = shared_elastic();
  bench.begin_to_die(1, SIGKILL);
  bench.step(MendFormed{1, 2});  // the replacement waits until the worker is reaped
  bench.step(RegroupNotice{"a node joins"});
  CHECK(bench.asked<WorkerFailure>() == nullptr);
  CHECK(bench.core.state() == State::stopping);
}
