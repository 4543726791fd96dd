// SPDX-License-Identifier: Apache-2.0
// The supervisor's shell around its core: effects in order, interleaved with the rendezvous'
// answers.
#include "agent/supervisor/supervisor.hpp"

#include "support/catch.hpp"

#include <csignal>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace muster;

namespace {

// Processes that start immediately and exit when the test says so; records all requests.
class Site final : public WorkerSite, public RoundSource, public ProcessRunner {
 public:
  std::vector<std::string> asked;
  std::function<void()> on_tell_gone = [] {};
  std::optional<TimePoint> alarm;
  std::vector<event::What> events;
  std::vector<Leftover> left;
  std::vector<Leftover> killed;
  bool only_deaf = false;
  std::string said;  // printed on stderr by a failing worker
  int evidence_read = 0;

  template <class Event>
  [[nodiscard]] std::vector<Event> told() const {
    std::vector<Event> out;
    for (const event::What& what : events) {
      if (const auto* found = std::get_if<Event>(&what)) {
        out.push_back(*found);
      }
    }
    return out;
  }

  // WorkerSite
  TimePoint now() override { return TimePoint{}; }

  double wall_seconds() override { return 1000; }

  ProcessRunner& runner() override { return *this; }

  void set_alarm(std::optional<TimePoint> when) override { alarm = when; }

  void tell(event::What what) override {
    if (const auto* ended = std::get_if<event::WorkerEnded>(&what)) {
      asked.push_back("ended " + std::to_string(ended->rank));
    }
    events.push_back(std::move(what));
  }

  void close_attempt(Duration /*timeout*/) override { asked.emplace_back("close attempt"); }

  void add_evidence(WorkerFailure& failure) override {
    ++evidence_read;
    failure.stderr_tail = said;
  }

  std::optional<std::uint64_t> last_step() override { return std::nullopt; }

  std::string mend_obstacle() override { return {}; }

  void keep_spares() override {}

  void tell_late(const std::vector<int>& local_ranks) override {
    asked.push_back("late " + std::to_string(local_ranks.size()));
  }

  void finished(const JobResult& result) override {
    asked.push_back("finished " + std::to_string(exit_code_of(result)));
  }

  // RoundSource
  void await_round(int attempt) override { asked.push_back("await " + std::to_string(attempt)); }

  void tell_gone() override {
    asked.emplace_back("gone");
    on_tell_gone();
  }

  void report_failure(const WorkerFailure& failure) override {
    asked.push_back("failed " + describe_end(failure));
  }

  void tell_ready(std::uint64_t /*epoch*/) override {}

  void end_mend(const std::string& /*reason*/) override {}

  void ask_mend(const AskMend& ask) override {
    asked.push_back("mend " + std::to_string(ask.local_ranks.size()));
  }

  void report_success() override { asked.emplace_back("success"); }

  void report_finished() override { asked.emplace_back("finished"); }

  void leave_round(const LeaveRound& leave) override { asked.push_back("leave: " + leave.reason); }

  void check_lease() override { asked.emplace_back("lease"); }

  void close() override { asked.emplace_back("close"); }

  // ProcessRunner
  Result<pid_t> spawn(const ProcessSpec& spec) override {
    asked.push_back("spawn " + std::to_string(spec.rank));
    return 100 + spec.local_rank;
  }

  void signal_groups(int signo, GroupsOf which) override {
    asked.push_back((which == GroupsOf::skipped_workers ? "signal skipped " : "signal ") +
                    std::to_string(signo));
  }

  void signal_workers(int /*signo*/) override {}

  void kill_tree(int local_rank, int rank) override {
    asked.push_back("kill tree " + std::to_string(local_rank) + " of " + std::to_string(rank));
  }

  void await_nothing_left() override { asked.emplace_back("clear"); }

  void kill_workers() override { asked.emplace_back("kill workers"); }

  void kill_everything() override { asked.emplace_back("kill"); }

  std::vector<Leftover> ask_leftovers() override {
    asked.emplace_back("ask");
    return left;
  }

  std::vector<Leftover> leftovers() const override { return left; }

  LeftoversSeen look_at_leftovers() const override { return {.only_deaf = only_deaf}; }

  std::vector<Leftover> take_killed() override { return std::exchange(killed, {}); }

  std::vector<Survivor> survivors() const override { return {}; }

  std::string stderr_tail(int /*local_rank*/) override { return {}; }

  void finish_output(Duration /*timeout*/) override {}
};

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

TEST_CASE(
    "supervisor: a round that arrives while the node reports itself ready begins afterwards") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  supervisor.run_round(round_of(2));
  supervisor.handle(RegroupNotice{"x"});
  supervisor.on_worker_exit(exited(0));
  supervisor.on_groups_empty();
  // A single node needs no reply from others: the next round is formed within its own call.
  site.on_tell_gone = [&] { supervisor.run_round(round_of(0)); };
  site.asked.clear();
  supervisor.on_nothing_left();
  CHECK(site.asked == Words{"gone", "close attempt", "await 1", "spawn 0"});
  CHECK(supervisor.core().state() == SupervisorState::running);
}

TEST_CASE(
    "supervisor: an error that prevents a node from starting its part fails its first worker") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  site.asked.clear();
  supervisor.run_round({2, 4, failure(Errc::system, "cannot create the folder '/x'")});
  CHECK(site.asked == Words{"failed could not be started: cannot create the folder '/x'", "clear"});
}

TEST_CASE("supervisor: handles the end of the job that arrives in between") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  supervisor.run_round(round_of(0));
  supervisor.on_worker_exit(exited(7));
  supervisor.on_groups_empty();
  Close close;
  close.exit_code = 7;
  site.on_tell_gone = [&] {
    supervisor.handle(RoundClosed{Outcome::failed, close, std::nullopt, {}});
  };
  site.asked.clear();
  supervisor.on_nothing_left();
  CHECK(site.asked == Words{"gone", "close attempt", "await 1", "close", "finished 7"});
}

TEST_CASE("supervisor: checks for an expired lease before it judges a worker's exit") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  supervisor.run_round(round_of(0));
  site.asked.clear();
  supervisor.on_worker_exit(exited(7));
  REQUIRE(site.asked.size() > 3);
  CHECK(Words(site.asked.begin(), site.asked.begin() + 3) ==
        Words{"ended 0", "lease", "failed exited with code 7"});
}

TEST_CASE("supervisor: the alarm is set to the core's deadline after each event") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  supervisor.run_round(round_of(0));
  CHECK_FALSE(site.alarm);
  supervisor.handle(RegroupNotice{"x"});
  REQUIRE(supervisor.next_deadline());
  CHECK(site.alarm == supervisor.next_deadline());
}

TEST_CASE("supervisor: events report each worker's start, exit and stop by rank") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  supervisor.run_round(round_of(5));
  REQUIRE(site.told<event::WorkerStarted>().size() == 1);
  CHECK(site.told<event::WorkerStarted>().front().rank == 5);
  CHECK(site.told<event::WorkerStarted>().front().pid == 100);
  supervisor.handle(RegroupNotice{"x"});
  CHECK(site.told<event::WorkersSignalled>().front().signo == SIGTERM);
  supervisor.on_worker_exit(exited(0));
  CHECK(site.told<event::WorkerEnded>().front().rank == 5);
  supervisor.on_groups_empty();
  CHECK(site.told<event::WorkersKilled>().empty());
}

TEST_CASE("supervisor: leftovers that ignore SIGTERM get no grace") {
  Site site;
  SupervisorSettings settings;
  settings.signals_to_forward = {SIGINT};
  Supervisor supervisor(site, site, settings);
  supervisor.handle(Started{});
  supervisor.run_round(round_of(0));
  supervisor.on_worker_exit(exited(0));
  site.only_deaf = GENERATE(false, true);
  site.asked.clear();
  supervisor.handle(SignalReceived{SIGINT, 0});
  CHECK(site.asked.back() == (site.only_deaf ? "kill workers" : "ask"));
}

TEST_CASE("supervisor: failures of an attempt are reported before the next one begins") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  for (const int code : {7, 8}) {
    supervisor.run_round(round_of(0));
    supervisor.on_worker_exit(exited(code));
    supervisor.on_groups_empty();
    supervisor.on_nothing_left();
  }
  const auto failed = site.told<WorkerFailure>();
  REQUIRE(failed.size() == 2);
  CHECK(failed[0].status.value == 7);
  CHECK(failed[0].attempt == 0);
  CHECK(failed[1].status.value == 8);
  CHECK(failed[1].attempt == 1);
}

TEST_CASE("supervisor: reports failures, but not those caused by its own stop") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  supervisor.run_round({2, 0, std::vector<ProcessSpec>(2)});
  supervisor.on_worker_exit(exited(7));
  supervisor.handle(RoundClosed{Outcome::failed, std::nullopt, std::nullopt, {}});
  WorkerExit stopped;
  stopped.local_rank = 1;
  stopped.pid = 101;
  stopped.status = ExitStatus{true, SIGTERM};
  supervisor.on_worker_exit(stopped);
  supervisor.on_groups_empty();
  supervisor.on_nothing_left();
  REQUIRE(site.told<WorkerFailure>().size() == 1);
  CHECK(site.told<WorkerFailure>().front().local_rank == 0);
}

TEST_CASE(
    "supervisor: a dying worker that lost its connection is no cause, others are one at once") {
  Site site;
  Supervisor supervisor(site, site, SupervisorSettings{});
  supervisor.handle(Started{});
  std::vector<ProcessSpec> specs(2);
  specs[1].local_rank = specs[1].rank = 1;
  supervisor.run_round({2, 0, std::move(specs)});
  site.asked.clear();
  site.said = "muster.errors.PeerFailed: rank 1 has died\n";
  SECTION("the lost connection is seen before the cause") {
    supervisor.on_worker_dying(exited(1));
    CHECK(site.asked.empty());
    site.said = "ValueError: x\n";
    WorkerExit cause = exited(7);
    cause.local_rank = 1;
    cause.pid = 101;
    supervisor.on_worker_dying(cause);
    CHECK(site.asked ==
          Words{"ended 1", "lease", "failed exited with code 7", "signal 15", "signal 18"});
    supervisor.on_worker_exit(cause);
    supervisor.on_worker_exit(exited(1));
    const auto& failures = supervisor.core().result().failures;
    REQUIRE(failures.size() == 2);
    CHECK(failures[0].stderr_tail == site.said);
    CHECK(failures[1].stderr_tail.starts_with("muster.errors.PeerFailed"));
    CHECK(site.evidence_read == 2);  // once for each worker, when it began to die
  }
  SECTION("killed by us, whatever it printed") {
    supervisor.on_worker_killed(exited(1));
    CHECK(site.asked ==
          Words{"ended 0", "lease", "failed exited with code 1", "signal 15", "signal 18"});
  }
}
