// SPDX-License-Identifier: Apache-2.0
// The supervisor's shell around its core: effects in order, and the rendezvous' words in between.
#include "agent/supervisor.hpp"

#include "support/catch.hpp"

#include <functional>
#include <string>
#include <vector>

using namespace muster;

namespace {

// Processes that start at once and end when the test says so; what was asked for is written down.
class Site final : public SupervisorSite, public ProcessRunner {
 public:
  std::vector<std::string> asked;
  std::function<void()> on_tell_gone = [] {};

  // SupervisorSite
  TimePoint now() override { return TimePoint{}; }

  double wall_seconds() override { return 1000; }

  ProcessRunner& runner() override { return *this; }

  Result<std::vector<ProcessSpec>> open_round(int /*attempt*/, int /*restarts*/) override {
    return failure(Errc::internal, "many nodes open no round of their own");
  }

  void close_attempt(std::vector<WorkerFailure>& /*failures*/, Duration /*patience*/) override {
    asked.emplace_back("close attempt");
  }

  void warn(const std::string& words) override { asked.push_back("warn " + words); }

  void finished(const JobResult& result) override {
    asked.push_back("finished " + std::to_string(exit_code_of(result)));
  }

  void await_round(int attempt) override { asked.push_back("await " + std::to_string(attempt)); }

  void tell_gone() override {
    asked.emplace_back("gone");
    on_tell_gone();
  }

  void report_failure(const WorkerFailure& failure, Duration /*run_time*/) override {
    asked.push_back("failed " + describe_end(failure));
  }

  // ProcessRunner
  Result<pid_t> spawn(const ProcessSpec& spec) override {
    asked.push_back("spawn " + std::to_string(spec.rank));
    return 100 + spec.local_rank;
  }

  void signal_groups(int signo) override { asked.push_back("signal " + std::to_string(signo)); }

  void signal_workers(int /*signo*/) override {}

  void kill_everything() override { asked.emplace_back("kill"); }

  std::vector<Survivor> survivors() const override { return {}; }

  std::string stderr_tail(int /*local_rank*/) override { return {}; }

  void finish_output(Duration /*patience*/) override {}
};

SupervisorSettings settings() {
  SupervisorSettings chosen;
  chosen.shared_round = true;
  return chosen;
}

RoundToRun round_of(int rank) {
  ProcessSpec spec;
  spec.rank = rank;
  return {1, rank, std::vector<ProcessSpec>{spec}};
}

WorkerExit exited(int code) {
  WorkerExit exit;
  exit.pid = 100;
  exit.status = ExitStatus{false, code};
  return exit;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("supervisor: a round that comes while we say that we are ready begins after it") {
  Site site;
  Supervisor supervisor(site, settings());
  supervisor.handle(Started{});
  supervisor.run_round(round_of(2));
  supervisor.handle(RegroupNotice{"x"});
  supervisor.on_worker_exit(exited(0));
  supervisor.on_groups_empty();
  // A node alone needs nobody's answer: the next round is formed inside of its own word.
  site.on_tell_gone = [&] { supervisor.run_round(round_of(0)); };
  site.asked.clear();
  supervisor.on_nothing_left();
  CHECK(site.asked == Words{"gone", "close attempt", "await 1", "spawn 0"});
  CHECK(supervisor.core().state() == SupervisorState::running);
}

TEST_CASE("supervisor: what keeps a node from running its part is its first worker's failure") {
  Site site;
  Supervisor supervisor(site, settings());
  supervisor.handle(Started{});
  site.asked.clear();
  supervisor.run_round({2, 4, failure(Errc::system, "cannot make the folder '/x'")});
  CHECK(site.asked == Words{"failed could not be started: cannot make the folder '/x'", "kill"});
}

TEST_CASE("supervisor: the job's end that comes in between is heard too") {
  Site site;
  Supervisor supervisor(site, settings());
  supervisor.handle(Started{});
  supervisor.run_round(round_of(0));
  supervisor.on_worker_exit(exited(7));
  supervisor.on_groups_empty();
  Close close;
  close.exit_code = 7;
  site.on_tell_gone = [&] { supervisor.handle(RoundClosed{Outcome::failed, close, std::nullopt}); };
  site.asked.clear();
  supervisor.on_nothing_left();
  CHECK(site.asked == Words{"gone", "close attempt", "await 1", "finished 7"});
}
