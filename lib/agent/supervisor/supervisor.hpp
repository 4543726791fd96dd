// SPDX-License-Identifier: Apache-2.0
// Supervisor: passes the events of the process runner and the round source to the core, and carries
// out the core's effects in order. It has no sockets and no clock of its own, so the agent and the
// simulator share this class. Lives on its owner's loop, single-threaded; resource.
#pragma once

#include "agent/events/job_event.hpp"
#include "agent/supervisor/round_source.hpp"
#include "agent/supervisor/supervisor_core.hpp"
#include "process/values/process_runner.hpp"

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster {

// The supervisor's environment: a clock, an alarm, the process runner and the outputs. The
// supervisor's owner implements it.
class WorkerSite {
 public:
  virtual ~WorkerSite() = default;
  [[nodiscard]] virtual TimePoint now() = 0;
  [[nodiscard]] virtual double wall_seconds() = 0;
  [[nodiscard]] virtual ProcessRunner& runner() = 0;
  // Sets the latest time for the next Tick. Called after every event.
  virtual void set_alarm(std::optional<TimePoint> when) = 0;
  // Reports what happened to the workers.
  virtual void tell(event::What what) = 0;
  // Adds the evidence that a failed worker left: its error file, the end of its stderr, the verdict
  // on its hang. Called once for each worker.
  virtual void add_evidence(WorkerFailure& failure) = 0;
  // The highest step that a worker has reported in this round; none if no worker reports steps.
  [[nodiscard]] virtual std::optional<std::uint64_t> last_step() = 0;
  // Reports workers that did not exit before the deadline of a preemption. They are being killed.
  virtual void tell_late(const std::vector<int>& local_ranks) = 0;
  // Why no worker can be replaced on its own now; empty if there is no reason.
  [[nodiscard]] virtual std::string mend_obstacle() = 0;
  // All workers on this node have the job's state: from now on, keeps spare workers.
  virtual void keep_spares() = 0;
  // The attempt is over: flushes its output.
  virtual void close_attempt(Duration timeout) = 0;
  // The last call.
  virtual void finished(const JobResult& result) = 0;
};

class Supervisor : public ProcessObserver, public RoundUser {
 public:
  Supervisor(WorkerSite& site, RoundSource& rounds, SupervisorSettings settings);

  // Handles one event and all of its immediate consequences. If the site or the round source calls
  // this function while an event is being handled, the new event is queued.
  void handle(const SupervisorEvent& event) override;

  // The round source calls this at most once for each await_round().
  void run_round(RoundToRun round) override;

  void run_mend(MendToRun mend) override;

  [[nodiscard]] int starts() const override { return core_.starts(); }

  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return core_.next_deadline(); }

  [[nodiscard]] const SupervisorCore& core() const { return core_; }

  void on_worker_exit(const WorkerExit& exit) override;
  void on_worker_dying(const WorkerExit& exit) override;

  // Called when we kill the worker because of the failure in `exit`. The failure is handled
  // immediately, before the worker is reaped.
  void on_worker_killed(const WorkerExit& exit);

  void on_groups_empty() override;
  void on_nothing_left() override;

 private:
  void handle_all();
  void step(const SupervisorEvent& event);
  void perform(const SupervisorEffect& effect);
  void ask_mend(AskMend ask);
  void kill_tree(const KillTree& asked);
  void tell_ready(std::uint64_t epoch);
  void tell_drain(const TellDrain& drain);
  void name_survivors();
  void signal_groups(const SignalGroups& asked);
  void kill(bool names);
  void tell_killed();
  void tell_leftovers(event::LeftoversFound found);
  void tell_killed_early(const TellKilledEarly& killed);
  void close_attempt(Duration timeout);
  void close_failures(const std::vector<WorkerFailure>& failures);
  void tell_mended(const TellMended& mended);
  void spawn(int local_rank);
  [[nodiscard]] Result<pid_t> start_worker(int local_rank);
  [[nodiscard]] const WorkerFailure& failure_of(const WorkerExit& exit);
  [[nodiscard]] int rank_of(int local_rank) const;

  WorkerSite& site_;
  RoundSource& rounds_;
  SupervisorCore core_;
  Result<std::vector<ProcessSpec>> specs_;
  // Events that arrived while another event was being handled.
  std::deque<SupervisorEvent> events_;
  std::deque<SupervisorEffect> effects_;
  std::map<int, WorkerFailure> failures_;  // failures of this attempt with evidence, by local rank
  TimePoint spawned_at_{};                 // when the last worker was started
  bool handling_ = false;
  bool names_killed_ = false;  // the processes being killed are leftovers, which are listed by name
};

}  // namespace muster
