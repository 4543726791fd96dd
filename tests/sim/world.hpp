// SPDX-License-Identifier: Apache-2.0
// World: one simulated job on one node, made from a seed: the real supervisor and its core between
// simulated processes and a script of faults. Its rounds are those of LocalRounds, or the world is
// the source itself and plays the other nodes. run() plays it to its end and checks the invariants
// after each event. Resource; one run each.
#pragma once

#include "agent/rounds/local_rounds.hpp"
#include "agent/supervisor/supervisor.hpp"
#include "sim/random.hpp"
#include "sim/scheduler.hpp"
#include "sim/sim_runner.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace muster::sim {

// Which kinds of trouble a seed brings, and how much of each. Whole kinds are off in most seeds, so
// that rare combinations happen.
struct SwarmOptions {
  int nproc = 1;
  int max_restarts = 0;
  Duration grace{};
  int failing_percent = 0;  // workers that end badly by themselves
  int hanging_percent = 0;
  int deaf_percent = 0;  // ignore requests to stop
  int unkillable_percent = 0;
  int spawn_error_percent = 0;
  int round_error_percent = 0;
  int lost_connection_percent = 0;    // failures that say so
  int library_percent = 0;            // workers whose death is seen before they are reaped
  int children_percent = 0;           // workers that leave children and daemons
  int signals = 0;                    // how many are sent to the launcher
  int signal_after_exit_percent = 0;  // a signal within moments of a worker's end
  int regroups = 0;
  bool guard_dies = false;
  bool quick = false;             // failures come at start-up
  bool shared = false;            // one node of many: the others decide on rounds, world_shared.cpp
  int fences = 0;                 // shared only
  bool closed_by_others = false;  // shared only: the job ends for a reason elsewhere
  bool others_silent = false;     // shared only: nobody answers one who leaves
  bool step = false;              // of a scheduler that signals the workers, too

  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] SwarmOptions swarm_options(Random& random);

struct RunReport {
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  Duration virtual_time{};
  std::string problem;  // empty: all invariants held
  JobResult result;
};

class World final : public WorkerSite,
                    public LocalRoundsSite,
                    public RoundSource,
                    public RoundUser,
                    public ProcessObserver {
 public:
  World(std::uint64_t seed, bool trace);

  [[nodiscard]] RunReport run();

  // WorkerSite
  TimePoint now() override { return scheduler_.now(); }

  double wall_seconds() override;

  ProcessRunner& runner() override { return *runner_; }

  void set_alarm(std::optional<TimePoint> /*when*/) override {}

  void tell(event::What /*what*/) override {}

  void close_attempt(std::vector<WorkerFailure>& failures, Duration timeout) override;
  void add_evidence(WorkerFailure& failure) override;
  void finished(const JobResult& result) override;

  // LocalRoundsSite
  Result<std::vector<ProcessSpec>> open_round(int attempt, int restarts) override;

  void close_round() override {}

  void restarting(const event::RestartDecided& restart) override;

  // RoundSource: the other nodes, where rounds are shared
  void await_round(int attempt) override;
  void tell_gone() override;
  void report_failure(const WorkerFailure& failure, Duration run_time) override;

  void report_success() override {}

  void report_finished() override;
  void leave_round(const std::string& reason) override;

  void check_lease() override {}

  void close() override {}

  // RoundUser: what local_rounds_ decides is for the supervisor, which is made after it.
  void run_round(RoundToRun round) override { supervisor_->run_round(std::move(round)); }

  void handle(const SupervisorEvent& event) override { supervisor_->handle(event); }

  [[nodiscard]] int starts() const override { return supervisor_->starts(); }

  // ProcessObserver
  void on_worker_exit(const WorkerExit& exit) override;
  void on_worker_dying(const WorkerExit& exit) override;
  void on_groups_empty() override;
  void on_nothing_left() override;

 private:
  WorkerScript script_for(const ProcessSpec& spec);
  void plan_faults();
  void plan_shared_faults();
  void run_shared_round();
  void close_job(Outcome outcome);
  void others_say(Duration delay, const std::string& name, const SupervisorEvent& event);
  void nothing_runs(const std::string& claim);
  [[nodiscard]] std::vector<ProcessSpec> specs() const;
  void send_signal(int signo);
  void take_signal(int signo, bool reached_workers);
  void deliver(const std::string& name, SupervisorEvent event);
  void arm();
  void check();
  void check_end();
  void trace(const std::string& line);
  void complain(const std::string& problem);

  std::uint64_t seed_;
  bool trace_;
  Random random_;
  SwarmOptions options_;
  Scheduler scheduler_;
  std::unique_ptr<SimRunner> runner_;
  LocalRounds local_rounds_;  // where rounds are not shared
  std::unique_ptr<Supervisor> supervisor_;
  RunReport report_;
  int attempts_ = 0;
  int attempts_closed_ = 0;
  int failures_reported_ = 0;  // shared: first ones of an attempt
  bool awaiting_ = false;      // shared: the next round may begin
  bool leaving_ = false;
  bool closed_ = false;  // shared: the others have said the last word
  bool finished_ = false;
  std::optional<TimePoint> armed_;
  std::optional<TimePoint> stop_asked_;  // the first signal that ends a job
  std::optional<int> first_failed_;      // local rank, of this attempt
  bool says_lost_ = false;               // the last evidence
};

}  // namespace muster::sim
