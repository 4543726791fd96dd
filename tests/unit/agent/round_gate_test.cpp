// SPDX-License-Identifier: Apache-2.0
// RoundGate: with --check, workers start after the verdict.
#include "agent/checks/round_gate.hpp"

#include "support/catch.hpp"

#include <string>
#include <utility>
#include <vector>

using namespace muster;

namespace {

using Calls = std::vector<std::string>;

// The source of the rounds, the supervisor and the site.
class Bench final : public RoundSource, public RoundUser, public GateSite {
 public:
  Bench() { gate.use(*this, *this); }

  Calls calls;
  bool checks = true;
  bool joins = true;
  RoundGate gate{*this};

  // The calls since the last time.
  Calls taken() { return std::exchange(calls, {}); }

  static RoundToRun round() { return {.nproc = 1, .specs = std::vector<ProcessSpec>(1)}; }

  bool needs_check() override { return checks; }

  void begin_check() override { calls.emplace_back("check"); }

  void end_check() override { calls.emplace_back("end check"); }

  bool may_start() override { return joins; }

  void run_round(RoundToRun round) override { calls.emplace_back(round.specs ? "run" : "fail"); }

  void run_mend(MendToRun /*mend*/) override { calls.emplace_back("mend"); }

  void handle(const SupervisorEvent& event) override {
    const auto* closed = std::get_if<RoundClosed>(&event);
    calls.push_back(closed == nullptr ? "other"
                    : closed->error   ? "closed: " + closed->error->message
                                      : "closed");
  }

  int starts() const override { return 7; }

  void await_round(int /*attempt*/) override {}

  void report_failure(const WorkerFailure& /*failure*/) override {}

  void ask_mend(const AskMend& /*ask*/) override {}

  void tell_ready(std::uint64_t /*epoch*/) override {}

  void end_mend(const std::string& /*reason*/) override {}

  void report_success() override {}

  void report_finished() override {}

  void tell_gone() override { calls.emplace_back("gone"); }

  void leave_round(const LeaveRound& asked) override { calls.push_back("leave: " + asked.reason); }

  void check_lease() override {}

  void close() override {}
};

}  // namespace

TEST_CASE("round gate: a round waits for the verdict") {
  Bench bench;
  bench.gate.run_round(Bench::round());
  CHECK(bench.taken() == Calls{"check"});
  bench.gate.open();
  CHECK(bench.taken() == Calls{"run"});
  bench.gate.open();
  CHECK(bench.taken().empty());
}

TEST_CASE("round gate: a checked round and one that cannot run are passed on") {
  Bench bench;
  bench.checks = false;
  bench.gate.run_round(Bench::round());
  CHECK(bench.taken() == Calls{"run"});
  bench.checks = true;
  RoundToRun bad = Bench::round();
  bad.specs = failure(Errc::usage, "no program");
  bench.gate.run_round(std::move(bad));
  CHECK(bench.taken() == Calls{"fail"});
  bench.gate.run_mend({});
  CHECK(bench.taken() == Calls{"mend"});
  CHECK(bench.gate.starts() == 7);
}

TEST_CASE("round gate: a round that ends during its check has no workers") {
  for (const SupervisorEvent& end : {SupervisorEvent{RegroupNotice{}},
                                     SupervisorEvent{Fenced{}},
                                     SupervisorEvent{RoundClosed{}}}) {
    Bench bench;
    bench.gate.run_round(Bench::round());
    bench.gate.handle(end);
    const std::string passed = std::holds_alternative<RoundClosed>(end) ? "closed" : "other";
    CHECK(bench.taken() == Calls{"check", "end check", "gone", passed});
    bench.gate.open();
    CHECK(bench.taken().empty());
  }
}

TEST_CASE("round gate: nothing starts on a node that was asked to leave during the check") {
  Bench bench;
  bench.gate.run_round(Bench::round());
  bench.joins = false;
  bench.gate.open();
  CHECK(bench.taken() == Calls{"check"});
}

TEST_CASE("round gate: a bad node leaves without having run workers") {
  Bench bench;
  bench.gate.run_round(Bench::round());
  bench.gate.leave({Errc::unreachable, "slow"});
  CHECK(bench.taken() == Calls{"check", "leave: slow", "gone"});
  SECTION("and the other nodes release it") {
    bench.gate.handle(RoundClosed{});
  }
  SECTION("although the other nodes do not answer") {
    bench.gate.close();
  }
  CHECK(bench.taken() == Calls{"closed: slow"});
  bench.gate.open();
  CHECK(bench.taken().empty());
}
