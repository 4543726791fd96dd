// SPDX-License-Identifier: Apache-2.0
// LocalRounds: how the rounds of a single node react to the fate of its workers.
#include "agent/rounds/local_rounds.hpp"

#include "support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace muster;
using namespace std::chrono_literals;

namespace {

class Bench final : public RoundUser, public LocalRoundsSite {
 public:
  std::vector<SupervisorEvent> events;
  std::vector<RoundToRun> run;
  std::vector<int> opened;  // attempts
  std::vector<event::RestartDecided> decisions;
  std::vector<MendToRun> mended;
  std::optional<std::uint64_t> step;
  std::optional<Error> trouble;
  bool closed = false;
  LocalRounds rounds;

  explicit Bench(RestartLimits limits = {1, 3}) : rounds(*this, *this, limits) {}

  void run_round(RoundToRun round) override { run.push_back(std::move(round)); }

  void handle(const SupervisorEvent& event) override { events.push_back(event); }

  int starts() const override { return 0; }

  Result<std::vector<ProcessSpec>> open_round(int attempt) override {
    opened.push_back(attempt);
    if (trouble) {
      return std::unexpected(*trouble);
    }
    return std::vector<ProcessSpec>(2);
  }

  void close_round() override { closed = true; }

  void run_mend(MendToRun mend) override { mended.push_back(std::move(mend)); }

  Result<MendToRun> open_mend(const std::vector<int>& local_ranks) override {
    if (trouble) {
      return std::unexpected(*trouble);
    }
    MendToRun mend{0, 2, {}};
    for (const int local_rank : local_ranks) {
      mend.specs.emplace_back();
      mend.specs.back().local_rank = mend.specs.back().rank = local_rank;
    }
    return mend;
  }

  void restarting(const event::RestartDecided& restart) override { decisions.push_back(restart); }

  [[nodiscard]] const RoundClosed& end() const {
    REQUIRE(events.size() == 1);
    return std::get<RoundClosed>(events.front());
  }
};

WorkerFailure exited(int code, bool after_stop = false) {
  WorkerFailure failure;
  failure.status = ExitStatus{false, code};
  failure.after_stop = after_stop;
  return failure;
}

}  // namespace

TEST_CASE("local rounds: a round begins when the supervisor requests it") {
  Bench bench;
  bench.rounds.await_round(0);
  REQUIRE(bench.run.size() == 1);
  CHECK(bench.run.front().nproc == 2);
  CHECK(bench.events.empty());
}

TEST_CASE("local rounds: a round that cannot be opened ends the job") {
  Bench bench;
  bench.trouble = Error{Errc::unreachable, "no store"};
  bench.rounds.await_round(0);
  CHECK(bench.run.empty());
  CHECK(bench.end().outcome == Outcome::not_started);
  CHECK(bench.end().error == bench.trouble);
}

TEST_CASE("local rounds: one decision per attempt, based on the first reported failure") {
  Bench bench;
  bench.rounds.await_round(0);
  bench.rounds.report_failure(exited(7));
  bench.rounds.report_failure(exited(8));
  REQUIRE(bench.decisions.size() == 1);
  CHECK(bench.decisions.front().restart == 1);
  CHECK(bench.decisions.front().restarts_left == 0);
  CHECK(bench.decisions.front().text.find("code 7; restarting all workers: restart 1 of 1") !=
        std::string::npos);
  CHECK(bench.events.empty());
  bench.rounds.await_round(1);
  CHECK(bench.opened.back() == 1);
  bench.rounds.report_failure(exited(7));
  CHECK(bench.end().outcome == Outcome::failed);
  CHECK(bench.end().verdict == "all 1 restarts are used up");
}

TEST_CASE("local rounds: a restart names the failed worker and the remaining budget") {
  Bench bench({5, 0});
  WorkerFailure failure = exited(7);
  failure.rank = 3;
  failure.local_rank = 1;
  failure.pid = 77;
  for (int restart = 1; restart <= 2; ++restart) {
    bench.rounds.await_round(restart - 1);
    bench.rounds.report_failure(failure);
  }
  REQUIRE(bench.decisions.size() == 2);
  const event::RestartDecided& last = bench.decisions.back();
  CHECK(last.rank == 3);
  CHECK(last.local_rank == 1);
  CHECK(last.pid == 77);
  CHECK(last.restart == 2);
  CHECK(last.restarts_left == 3);
}

TEST_CASE("local rounds: a worker that fails after it was stopped uses up no restart") {
  Bench bench;
  bench.rounds.await_round(0);
  bench.rounds.report_failure(exited(7, true));
  CHECK(bench.rounds.restarts() == 0);
  CHECK(bench.decisions.empty());
}

TEST_CASE("local rounds: the job ends without waiting for other nodes") {
  Bench bench;
  SECTION("a success") {
    bench.rounds.report_success();
    CHECK(bench.end().outcome == Outcome::succeeded);
  }
  SECTION("a request to stop") {
    bench.rounds.leave_round({"asked to end"});
    CHECK(bench.end().outcome == Outcome::interrupted);
  }
  bench.rounds.close();
  CHECK(bench.closed);
}

TEST_CASE("local rounds: a hung worker is restarted, or ends the job") {
  for (const bool ends_job : {false, true}) {
    Bench bench;
    WorkerFailure failure = exited(7);
    failure.hung = true;
    failure.ends_job = ends_job;
    bench.rounds.await_round(0);
    bench.rounds.report_failure(failure);
    CHECK(bench.decisions.size() == (ends_job ? 0U : 1U));
    if (ends_job) {
      CHECK(bench.end().outcome == Outcome::failed);
    } else {
      CHECK(bench.decisions.front().text.find("made no progress and was killed "
                                              "(--on-hang=restart); restarting all workers") !=
            std::string::npos);
    }
  }
}

namespace {

AskMend ask(int number, int local_rank, std::uint64_t step = 0, bool out_of_memory = false) {
  WorkerFailure failure = exited(7);
  failure.local_rank = failure.rank = local_rank;
  failure.run_time = 10s;
  failure.out_of_memory = out_of_memory;
  return {number, failure, {local_rank}, true, step};
}

const MendRefused& refusal(const Bench& bench) {
  REQUIRE_FALSE(bench.events.empty());
  return std::get<MendRefused>(bench.events.back());
}

}  // namespace

TEST_CASE("local rounds: a mend replaces the failed workers and counts as a restart") {
  Bench bench({2, 3});
  bench.rounds.await_round(0);
  bench.rounds.ask_mend(ask(1, 1));
  REQUIRE(bench.mended.size() == 1);
  CHECK(bench.mended.front().number == 1);
  CHECK(bench.mended.front().epoch == 2);
  REQUIRE(bench.mended.front().specs.size() == 1);
  REQUIRE(bench.decisions.size() == 1);
  CHECK(bench.decisions.front().replaced == std::vector{1});
  CHECK(bench.decisions.front().restarts_left == 1);
  CHECK(bench.decisions.front().text.ends_with("; replacing rank 1: restart 1 of 2"));
  CHECK_FALSE(bench.mended.front().last);
  bench.rounds.ask_mend(ask(2, 0));
  CHECK(bench.mended.back().last);
  bench.rounds.ask_mend(ask(3, 0));
  CHECK(bench.end().outcome == Outcome::failed);
}

TEST_CASE("local rounds: only restarts of all workers count in TORCHELASTIC_RESTART_COUNT") {
  Bench bench({9, 3});
  bench.rounds.await_round(0);
  bench.rounds.ask_mend(ask(1, 1));
  bench.rounds.report_failure(exited(7));
  bench.rounds.await_round(1);
  CHECK(bench.opened.back() == 1);
}

TEST_CASE("local rounds: a mend that cannot be opened uses its restart for all workers") {
  Bench bench({9, 3});
  bench.rounds.await_round(0);
  bench.trouble = Error{Errc::not_possible, "rank 0 serves the store"};
  bench.rounds.ask_mend(ask(1, 1));
  CHECK(refusal(bench).reason == "rank 0 serves the store");
  bench.rounds.report_failure(exited(7));
  CHECK(bench.rounds.restarts() == 1);
  REQUIRE(bench.decisions.size() == 1);
  CHECK(bench.decisions.front().replaced.empty());
}

TEST_CASE("local rounds: mends without a completed step end in a restart of all workers") {
  Bench bench({20, 0});
  bench.rounds.await_round(0);
  for (int i = 1; i <= kMendsWithoutStep; ++i) {
    bench.rounds.ask_mend(ask(i, 1, 5));
  }
  for (int i = 1; i <= kMendsWithoutStep; ++i) {
    bench.rounds.ask_mend(ask(10 + i, 2, 6));
  }
  CHECK(bench.events.empty());
  bench.rounds.ask_mend(ask(20, 2, 6));
  CHECK(refusal(bench).number == 20);
  CHECK(refusal(bench).reason == "no step was completed between the last 4 failures");
  bench.rounds.report_failure(exited(7));
  bench.rounds.await_round(1);
  bench.rounds.ask_mend(ask(21, 2, 6));  // the next round starts to count again
  CHECK(bench.mended.back().number == 21);
}

TEST_CASE("local rounds: a rank that runs out of memory twice ends in a restart of all workers") {
  Bench bench({20, 0});
  bench.rounds.await_round(0);
  bench.rounds.ask_mend(ask(1, 1, 5, true));
  bench.rounds.ask_mend(ask(2, 2, 6, true));
  CHECK(bench.events.empty());
  bench.rounds.ask_mend(ask(3, 1, 7, true));
  CHECK(refusal(bench).reason == "rank 1 ran out of memory 2 times");
}
