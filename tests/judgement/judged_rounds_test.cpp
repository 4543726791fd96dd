// SPDX-License-Identifier: Apache-2.0
// JudgedRounds: which failures end the job, and what the user reads.
#include "agent/rounds/judged_rounds.hpp"

#include "support/catch.hpp"

#include <optional>
#include <string>
#include <utility>

using namespace muster;

namespace {

// The source of the rounds.
class Source final : public RoundSource {
 public:
  std::optional<WorkerFailure> reported;

  void await_round(int /*attempt*/) override {}

  void report_failure(const WorkerFailure& failure) override { reported = failure; }

  void ask_mend(const AskMend& ask) override { reported = ask.cause; }

  void tell_ready(std::uint64_t /*epoch*/) override {}

  void end_mend(const std::string& /*reason*/) override {}

  void report_success() override {}

  void report_finished() override {}

  void tell_gone() override {}

  void leave_round(const LeaveRound& /*asked*/) override {}

  void check_lease() override {}

  void close() override {}
};

WorkerFailure bug(pid_t pid) {
  WorkerFailure failure;
  failure.pid = pid;
  failure.status = ExitStatus{false, 1};
  failure.stderr_tail =
      "Traceback (most recent call last):\n  File \"a.py\", line 2\nKeyError: 3\n";
  failure.step = 9;
  return failure;
}

struct Bench {
  Source source;
  JudgedRounds rounds;

  explicit Bench(JudgementSettings settings = {}) : rounds(source, settings) {}

  // A round that ends with this failure.
  const WorkerFailure& fail(WorkerFailure failure) {
    rounds.await_round(0);
    rounds.note(failure);
    rounds.report_failure(failure);
    return *source.reported;
  }

  std::string start_worker() {
    event::What what = event::WorkerStarted{};
    return rounds.complete(what);
  }
};

const std::string kTwice =
    "a restart will not help: rank 0 failed twice at step 9 with the same traceback (KeyError: 3)";

}  // namespace

TEST_CASE("judged rounds: by default, the verdict is only reported") {
  Bench bench;
  CHECK(bench.fail(bug(1)).judgement->advice == Advice::restart);
  CHECK(bench.start_worker().empty());
  CHECK_FALSE(bench.fail(bug(2)).no_restart);
  CHECK(bench.source.reported->judgement->text == kTwice);
  CHECK(bench.start_worker() == kTwice);
  CHECK(bench.start_worker().empty());
}

TEST_CASE("judged rounds: --on-verdict=stop ends the job") {
  Bench bench({.workers = 1, .stop = true, .no_restart_on = {}});
  CHECK_FALSE(bench.fail(bug(1)).no_restart);
  CHECK(bench.fail(bug(2)).no_restart);
  CHECK(failed_message(*bench.source.reported).permanent);
}

TEST_CASE("judged rounds: --no-restart-on acts without --on-verdict") {
  Bench bench({.workers = 1, .stop = false, .no_restart_on = {3}});
  WorkerFailure failure;
  failure.status = ExitStatus{false, 3};
  CHECK(bench.fail(failure).no_restart);
}

TEST_CASE("judged rounds: only the first failure of a round is judged") {
  Bench bench;
  bench.fail(bug(1));
  WorkerFailure other = bug(2);
  other.rank = 1;
  bench.rounds.note(other);
  bench.rounds.report_failure(other);
  CHECK_FALSE(bench.source.reported->judgement);
}

TEST_CASE("judged rounds: a replacement that fails like its predecessor") {
  Bench bench({.workers = 1, .stop = true, .no_restart_on = {}});
  bench.rounds.await_round(0);
  for (const pid_t pid : {1, 2}) {
    WorkerFailure failure = bug(pid);
    bench.rounds.note(failure);
    AskMend ask;
    ask.cause = failure;
    bench.rounds.ask_mend(ask);
    CHECK(bench.source.reported->no_restart == (pid == 2));
  }
}

TEST_CASE("judged rounds: the events and the result contain the judgement") {
  Bench bench;
  bench.fail(bug(1));
  bench.fail(bug(2));
  event::What what = bug(2);
  CHECK(bench.rounds.complete(what).empty());
  CHECK(std::get<WorkerFailure>(what).judgement->text == kTwice);
  JobResult result;
  result.failures = {bug(2), bug(3)};
  result = bench.rounds.complete(std::move(result));
  CHECK(result.failures[0].judgement->text == kTwice);
  CHECK_FALSE(result.failures[1].judgement);
}

TEST_CASE("judged rounds: an error at startup may wait for the other ranks") {
  Bench bench;
  WorkerFailure failure;
  failure.status = ExitStatus{false, 1};
  failure.stderr_tail =
      "Traceback (most recent call last):\n  File \"a.py\", line 2\n"
      "ModuleNotFoundError: No module named 'apex'\n";
  bench.rounds.note(failure);
  CHECK(failure.startup_error);
  WorkerFailure other = bug(1);
  bench.rounds.note(other);
  CHECK_FALSE(other.startup_error);
}

TEST_CASE("judged rounds: without restarts, an error at startup does not wait for other workers") {
  for (const bool may_restart : {true, false}) {
    Bench bench({.workers = 2, .stop = false, .no_restart_on = {}, .may_restart = may_restart});
    WorkerFailure failure;
    failure.status = {false, 2};
    failure.stderr_tail = "train.py: error: unrecognized arguments: --lrr\n";
    bench.rounds.await_round(0);
    bench.rounds.note(failure);
    CHECK(failure.startup_error == may_restart);
  }
}
