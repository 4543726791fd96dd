// SPDX-License-Identifier: Apache-2.0
// DelayedRounds: after a failure, the next round waits.
#include "agent/rounds/delayed_rounds.hpp"

#include "support/catch.hpp"

#include <string>
#include <vector>

using namespace muster;

namespace {

using Calls = std::vector<std::string>;

// The source of the rounds, and the site.
class Bench final : public RoundSource, public DelaySite {
 public:
  explicit Bench(std::optional<Duration> delay = std::chrono::seconds(5))
      : rounds(*this, *this, {delay, std::chrono::seconds(60)}) {}

  Calls calls;
  DelayedRounds rounds;
  bool is_auto = false;
  int restarts = 0;

  // The calls since the last time.
  Calls taken() { return std::exchange(calls, {}); }

  // Like the supervisor between two rounds.
  void restart(int attempt) {
    rounds.expect_round();
    rounds.tell_gone();
    rounds.await_round(attempt);
  }

  void fail(bool after_stop = false, bool preempted = false) {
    WorkerFailure failure;
    failure.after_stop = after_stop;
    failure.preempted = preempted;
    rounds.report_failure(failure);
  }

  // A round fails, and the next one begins. Returns the wait before it.
  std::string delay_after(std::optional<std::uint64_t> step, Duration run_time = {}) {
    WorkerFailure failure;
    failure.step = step;
    failure.run_time = run_time;
    rounds.report_failure(failure);
    restart(++restarts);
    const Calls all = taken();
    if (all.back().starts_with("wait")) {
      rounds.end_wait();
      taken();
      return all.back().substr(5);
    }
    return "none";
  }

  void begin_wait(Duration delay, bool grows) override {
    CHECK(grows == is_auto);
    calls.push_back("wait " + describe(delay));
  }

  void cancel_wait() override { calls.emplace_back("cancel"); }

  void await_round(int attempt) override { calls.push_back("await " + std::to_string(attempt)); }

  void report_failure(const WorkerFailure& /*failure*/) override { calls.emplace_back("failure"); }

  void ask_mend(const AskMend& /*ask*/) override { calls.emplace_back("mend"); }

  void tell_ready(std::uint64_t epoch) override {
    calls.push_back("ready " + std::to_string(epoch));
  }

  void end_mend(const std::string& reason) override { calls.push_back("end mend: " + reason); }

  void report_success() override { calls.emplace_back("success"); }

  void report_finished() override { calls.emplace_back("finished"); }

  void expect_round() override { calls.emplace_back("expect"); }

  void tell_gone() override { calls.emplace_back("gone"); }

  void leave_round(const LeaveRound& asked) override { calls.push_back("leave: " + asked.reason); }

  void check_lease() override { calls.emplace_back("check"); }

  void close() override { calls.emplace_back("close"); }
};

}  // namespace

TEST_CASE("delayed rounds: after a failure, the next round waits once") {
  Bench bench;
  bench.rounds.await_round(0);
  CHECK(bench.taken() == Calls{"await 0"});
  bench.fail();
  bench.fail();
  bench.restart(1);
  CHECK(bench.taken() == Calls{"failure", "failure", "expect", "wait 5s"});
  bench.rounds.end_wait();
  CHECK(bench.taken() == Calls{"gone", "await 1"});
  bench.restart(2);
  CHECK(bench.taken() == Calls{"expect", "gone", "await 2"});
}

TEST_CASE("delayed rounds: no wait without a delay, a failure or a failure of its own") {
  Bench none(Duration::zero());
  none.fail();
  none.restart(1);
  CHECK(none.taken() == Calls{"failure", "expect", "gone", "await 1"});
  Bench bench;
  bench.fail(true);  // it was stopped because another worker failed
  bench.restart(1);
  CHECK(bench.taken() == Calls{"failure", "expect", "gone", "await 1"});
  bench.fail(false, true);  // the job will end
  bench.restart(2);
  CHECK(bench.taken() == Calls{"failure", "expect", "gone", "await 2"});
}

TEST_CASE("delayed rounds: a mend that ends in a restart of all workers waits") {
  Bench bench;
  bench.rounds.ask_mend({});
  bench.rounds.tell_ready(2);
  CHECK(bench.taken() == Calls{"mend", "ready 2"});
  bench.rounds.end_mend("late");
  bench.restart(1);
  CHECK(bench.taken() == Calls{"end mend: late", "expect", "wait 5s"});
}

TEST_CASE("delayed rounds: a signal ends the wait, and the node reports that it is empty") {
  Bench bench;
  bench.fail();
  bench.restart(1);
  bench.taken();
  bench.rounds.leave_round({"signal"});
  bench.rounds.tell_gone();
  CHECK(bench.taken() == Calls{"cancel", "leave: signal", "gone"});
}

TEST_CASE("delayed rounds: the end of the job ends the wait") {
  Bench bench;
  bench.fail();
  bench.restart(1);
  bench.taken();
  bench.rounds.close();
  CHECK(bench.taken() == Calls{"cancel", "close"});
  bench.rounds.end_wait();
  CHECK(bench.taken().empty());
}

TEST_CASE("delayed rounds: a signal before the wait begins leaves none") {
  Bench bench;
  bench.fail();
  bench.rounds.leave_round({"signal"});
  bench.rounds.tell_gone();
  CHECK(bench.taken() == Calls{"failure", "leave: signal", "gone"});
}

TEST_CASE("delayed rounds: all other calls pass at once") {
  Bench bench;
  bench.fail();
  bench.restart(1);
  bench.taken();
  bench.rounds.report_success();
  bench.rounds.report_finished();
  bench.rounds.check_lease();
  CHECK(bench.taken() == Calls{"success", "finished", "check"});
}

TEST_CASE("delayed rounds: the delay grows while there is no progress") {
  Bench bench(std::nullopt);
  bench.is_auto = true;
  CHECK(bench.delay_after(std::nullopt) == "none");  // the first failure
  for (const char* const delay : {"1s", "2s", "4s", "8s", "16s", "32s", "60s", "60s"}) {
    CHECK(bench.delay_after(std::nullopt) == delay);
  }
  CHECK(bench.delay_after(10) == "none");
  CHECK(bench.delay_after(10) == "1s");
  CHECK(bench.delay_after(9) == "2s");  // it continued at a checkpoint, and failed again
  CHECK(bench.delay_after(11) == "none");
  CHECK(bench.delay_after(11) == "1s");
}

TEST_CASE("delayed rounds: workers without steps make progress if they run for a minute") {
  Bench bench(std::nullopt);
  bench.is_auto = true;
  CHECK(bench.delay_after(std::nullopt, std::chrono::seconds(1)) == "none");
  CHECK(bench.delay_after(std::nullopt, std::chrono::seconds(59)) == "1s");
  CHECK(bench.delay_after(std::nullopt, std::chrono::seconds(60)) == "none");
  CHECK(bench.delay_after(std::nullopt, std::chrono::seconds(1)) == "1s");
  CHECK(bench.delay_after(7, std::chrono::seconds(1)) == "none");
  CHECK(bench.delay_after(std::nullopt, std::chrono::minutes(9)) == "none");
}
