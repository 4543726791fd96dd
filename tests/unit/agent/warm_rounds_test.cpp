// SPDX-License-Identifier: Apache-2.0
// WarmRounds: requests a round when the zygote is ready, or is known not to become ready.
#include "agent/rounds/warm_rounds.hpp"

#include "support/catch.hpp"

#include <string>
#include <vector>

using namespace muster;

namespace {

class Bench final : public RoundSource, public WarmSite {
 public:
  std::vector<int> awaited;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  std::vector<std::string> failures;
  int prepared = 0;
  int left = 0;
  int gone = 0;
  int begun = 0;
  bool closed = false;
  TimePoint time{};
  WarmRounds rounds{*this, *this};

  void prepare_zygote(ZygoteObserver& observer) override {
    CHECK(&observer == &rounds);
    ++prepared;
  }

  TimePoint now() override { return time; }

  void warn(const std::string& text) override { warnings.push_back(text); }

  void inform(const std::string& text) override { notes.push_back(text); }

  void fail(const Error& error) override { failures.push_back(error.message); }

  void await_round(int attempt) override { awaited.push_back(attempt); }

  void report_failure(const WorkerFailure& /*failure*/) override {}

  void ask_mend(const AskMend& /*ask*/) override {}

  void tell_ready(std::uint64_t /*epoch*/) override {}

  void end_mend(const std::string& /*reason*/) override {}

  void report_success() override {}

  void report_finished() override {}

  void tell_gone() override { ++gone; }

  void leave_round(const LeaveRound& /*asked*/) override { ++left; }

  void begin() {
    rounds.when_ready([this] {
      ++begun;
      rounds.await_round(0);
    });
  }

  // Like the supervisor before another attempt.
  void restart(int attempt) {
    rounds.tell_gone();
    rounds.await_round(attempt);
  }

  void check_lease() override {}

  void close() override { closed = true; }
};

}  // namespace

TEST_CASE("warm rounds: requests the first round when the zygote is ready") {
  Bench bench;
  bench.begin();
  CHECK(bench.prepared == 1);
  CHECK(bench.begun == 0);
  bench.rounds.on_zygote_ready();
  CHECK(bench.begun == 1);
  CHECK(bench.awaited == std::vector<int>{0});
  bench.rounds.on_zygote_ready();
  CHECK(bench.begun == 1);
  CHECK(bench.awaited.size() == 1);
}

TEST_CASE("warm rounds: checks the zygote again before the next round") {
  Bench bench;
  bench.begin();
  bench.rounds.on_zygote_ready();
  bench.restart(1);
  CHECK(bench.prepared == 2);
  CHECK(bench.gone == 0);
  CHECK(bench.awaited == std::vector<int>{0});
  bench.rounds.on_zygote_ready();
  CHECK(bench.gone == 1);
  CHECK(bench.awaited == std::vector<int>{0, 1});
}

TEST_CASE("warm rounds: checks the zygote while the workers are being stopped") {
  Bench bench;
  bench.begin();
  bench.rounds.on_zygote_ready();
  bench.rounds.expect_round();
  CHECK(bench.prepared == 2);
  SECTION("the check ends first") {
    bench.rounds.on_zygote_ready();
    CHECK(bench.gone == 0);
    bench.restart(1);
    CHECK(bench.prepared == 2);
    CHECK(bench.awaited == std::vector<int>{0, 1});
  }
  SECTION("the workers exit first") {
    bench.restart(1);
    CHECK(bench.gone == 0);
    bench.rounds.on_zygote_ready();
    CHECK(bench.prepared == 2);
    CHECK(bench.gone == 1);
    CHECK(bench.awaited == std::vector<int>{0, 1});
  }
  SECTION("files may have changed while the workers were stopping") {
    bench.rounds.on_zygote_ready();
    bench.time += kCheckValid;
    bench.restart(1);
    CHECK(bench.prepared == 3);
    CHECK(bench.gone == 0);
    bench.rounds.on_zygote_ready();
    CHECK(bench.gone == 1);
  }
  SECTION("each check counts once") {
    bench.rounds.on_zygote_ready();
    bench.restart(1);
    bench.restart(2);
    CHECK(bench.prepared == 3);
  }
}

TEST_CASE("warm rounds: a round started by other nodes needs no check") {
  Bench bench;
  bench.begin();
  bench.rounds.on_zygote_ready();
  bench.rounds.await_round(1);  // after this node had done its part
  CHECK(bench.prepared == 1);
  CHECK(bench.awaited == std::vector<int>{0, 1});
}

TEST_CASE("warm rounds: without a zygote rounds begin at once, with one warning") {
  Bench bench;
  bench.begin();
  bench.rounds.on_zygote_lost("why");
  bench.rounds.on_zygote_lost("again");
  CHECK(bench.warnings == std::vector<std::string>{"--warm: workers are started cold: why"});
  CHECK(bench.awaited == std::vector<int>{0});
  bench.restart(1);
  CHECK(bench.prepared == 1);
  CHECK(bench.gone == 1);
  CHECK(bench.awaited == std::vector<int>{0, 1});
}

TEST_CASE("warm rounds: the job does not start with a module that does not exist") {
  Bench bench;
  bench.begin();
  bench.rounds.on_unknown_module("no module named torhc");
  CHECK(bench.failures == std::vector<std::string>{"--warm: no module named torhc"});
  CHECK(bench.begun == 0);
  CHECK(bench.warnings.empty());
}

TEST_CASE("warm rounds: a module that is removed later does not end the job") {
  Bench bench;
  bench.begin();
  bench.rounds.on_zygote_ready();
  bench.restart(1);
  bench.rounds.on_unknown_module("no module named torch");
  CHECK(bench.failures.empty());
  CHECK(bench.warnings.size() == 1);
  CHECK(bench.awaited == std::vector<int>{0, 1});
}

TEST_CASE("warm rounds: a zygote that dies while workers run requests no round") {
  Bench bench;
  bench.begin();
  bench.rounds.on_zygote_ready();
  bench.rounds.on_zygote_lost("killed");
  CHECK(bench.awaited == std::vector<int>{0});
}

TEST_CASE("warm rounds: a zygote that is replaced while workers run requests no round") {
  Bench bench;
  bench.begin();
  bench.rounds.on_zygote_ready();
  bench.rounds.on_zygote_replaced("torch has changed");
  CHECK(bench.notes ==
        std::vector<std::string>{"--warm: importing the modules again: torch has changed"});
  bench.rounds.on_zygote_ready();
  CHECK(bench.awaited == std::vector<int>{0});
  CHECK(bench.begun == 1);
  CHECK(bench.gone == 0);
}

TEST_CASE("warm rounds: a node that leaves meanwhile requests no round") {
  Bench bench;
  bench.begin();
  SECTION("on a signal") {
    bench.rounds.leave_round({"SIGTERM"});
    CHECK(bench.left == 1);
  }
  SECTION("at the end of the job") {
    bench.rounds.close();
    CHECK(bench.closed);
  }
  bench.rounds.on_zygote_ready();
  CHECK(bench.begun == 0);
  CHECK(bench.awaited.empty());
}
