// SPDX-License-Identifier: Apache-2.0
// World: one simulated single-node job, built from a seed: the real supervisor and its core,
// simulated processes and a script of faults. LocalRounds provides the rounds, or the world itself
// does and plays the other nodes. run() runs it to completion and checks the invariants after each
// event. Resource; for one run.
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

// The kinds of faults in a seed and their rates. Most seeds disable whole kinds, so that rare
// combinations occur.
struct SwarmOptions {
  int nproc = 1;
  int max_restarts = 0;
  Duration grace{};
  int failing_percent = 0;  // workers that fail on their own
  int hanging_percent = 0;
  int deaf_percent = 0;  // ignore requests to stop
  int unkillable_percent = 0;
  int spawn_error_percent = 0;
  int round_error_percent = 0;
  int lost_connection_percent = 0;    // failures that report a lost connection
  int library_percent = 0;            // workers whose death is noticed before they are reaped
  int children_percent = 0;           // workers that leave children and daemons
  int signals = 0;                    // number of signals sent to the launcher
  int signal_after_exit_percent = 0;  // a signal within moments of a worker's exit
  int regroups = 0;
  bool preempted = false;  // a scheduler announces that it will stop the job
  bool guard_dies = false;
  bool quick = false;             // failures occur at startup
  bool shared = false;            // one node of many: other nodes decide on rounds,
                                  // world_shared.cpp
  int fences = 0;                 // shared only
  bool closed_by_others = false;  // shared only: the job ends because of another node
  bool others_silent = false;     // shared only: no reply to a node that leaves
  bool step = false;              // under a scheduler that also signals the workers
  int elastic_percent = 0;  // workers that continue when others are replaced; 0: --restart=group
  int spares = 0;           // spare workers
  SpareFaults spare_faults;

  [[nodiscard]] std::string describe() const;
};

[[nodiscard]] SwarmOptions swarm_options(Random& random);

struct RunReport {
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  Duration virtual_time{};
  std::string problem;  // empty if all invariants held
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

  void close_attempt(Duration timeout) override;
  void add_evidence(WorkerFailure& failure) override;
  void finished(const JobResult& result) override;

  // LocalRoundsSite
  Result<std::vector<ProcessSpec>> open_round(int attempt) override;

  void close_round() override {}

  Result<MendToRun> open_mend(const std::vector<int>& local_ranks) override;

  std::optional<std::uint64_t> last_step() override { return step_; }

  std::string mend_obstacle() override { return {}; }

  void keep_spares() override {
    if (options_.spares > 0) {
      runner_->keep_spares(options_.spares);
    }
  }

  void tell_late(const std::vector<int>& local_ranks) override;

  void restarting(const event::RestartDecided& restart) override;

  // RoundSource: the other nodes, if rounds are shared
  void await_round(int attempt) override;
  void tell_gone() override;
  void report_failure(const WorkerFailure& failure) override;

  void ask_mend(const AskMend& ask) override;
  void tell_ready(std::uint64_t epoch) override;
  void end_mend(const std::string& reason) override;

  void report_success() override {}

  void report_finished() override;
  void leave_round(const LeaveRound& asked) override;

  void check_lease() override {}

  void close() override {}

  // RoundUser: forwards decisions of local_rounds_ to the supervisor, which is created later.
  void run_round(RoundToRun round) override { supervisor_->run_round(std::move(round)); }

  void run_mend(MendToRun mend) override { supervisor_->run_mend(std::move(mend)); }

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
  void plan_preemption();
  void preempt();
  [[nodiscard]] Preempts one_of_kinds();
  void others_leave();
  void run_shared_round();
  void tell_loss();
  [[nodiscard]] bool is_stopped(int local_rank) const;
  void run_shared_mend(int number, const std::vector<int>& local_ranks, int attempt);
  void resume_workers();
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
  LocalRounds local_rounds_;  // if rounds are not shared
  std::unique_ptr<Supervisor> supervisor_;
  RunReport report_;
  int attempts_ = 0;
  int attempts_closed_ = 0;
  TimePoint notice_at_{};                // of a preemption
  std::optional<int> starts_at_notice_;  // of a preemption that stops this node
  std::uint64_t epoch_ = 0;              // grows with each round and mend
  std::uint64_t step_ = 0;               // of the workers
  int failures_reported_ = 0;            // shared: first failures of an attempt, and mends
  bool awaiting_ = false;                // shared: the next round may begin
  bool leaving_ = false;
  bool closed_ = false;  // shared: the other nodes have closed the job
  bool finished_ = false;
  std::optional<TimePoint> armed_;
  std::optional<TimePoint> stop_asked_;  // the first signal that ends a job
  std::optional<int> first_failed_;      // local rank, of this attempt
  bool says_lost_ = false;               // true if the last evidence reported a lost connection
};

}  // namespace muster::sim
