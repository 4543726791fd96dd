// SPDX-License-Identifier: Apache-2.0
// Supervisor: steps the core with what the process runner sees and what its source of rounds tells,
// and carries out the core's effects, in order. No sockets, no clock of its own: the agent and the
// simulator both stand around this same class. Lives on its owner's loop, single-threaded;
// resource.
#pragma once

#include "agent/events/job_event.hpp"
#include "agent/supervisor/round_source.hpp"
#include "agent/supervisor/supervisor_core.hpp"
#include "process/values/process_runner.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace muster {

// What the supervisor needs of the world besides processes and rounds.
class WorkerSite {
 public:
  virtual ~WorkerSite() = default;
  [[nodiscard]] virtual TimePoint now() = 0;
  [[nodiscard]] virtual double wall_seconds() = 0;
  [[nodiscard]] virtual ProcessRunner& runner() = 0;
  // When to handle a Tick at the latest; called after every event.
  virtual void set_alarm(std::optional<TimePoint> when) = 0;
  // What became of the workers.
  virtual void tell(event::What what) = 0;
  // What a worker that has failed left behind: its error file, the end of its stderr.
  virtual void add_evidence(WorkerFailure& failure) = 0;
  // The attempt is over: finishes its output and adds the evidence to its failures.
  virtual void close_attempt(std::vector<WorkerFailure>& failures, Duration timeout) = 0;
  // Last call of all.
  virtual void finished(const JobResult& result) = 0;
};

class Supervisor : public ProcessObserver, public RoundUser {
 public:
  Supervisor(WorkerSite& site, RoundSource& rounds, SupervisorSettings settings);

  // Takes one event with all that follows from it at once. Called from inside a call to the site or
  // to the source of rounds, it is taken after what was begun.
  void handle(const SupervisorEvent& event) override;

  // After the source of rounds was asked for one, once.
  void run_round(RoundToRun round) override;

  [[nodiscard]] int starts() const override { return core_.starts(); }

  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return core_.next_deadline(); }

  [[nodiscard]] const SupervisorCore& core() const { return core_; }

  void on_worker_exit(const WorkerExit& exit) override;
  void on_worker_dying(const WorkerExit& exit) override;

  // By us, for a failure that `exit` tells, which counts at once.
  void on_worker_killed(const WorkerExit& exit);

  void on_groups_empty() override;
  void on_nothing_left() override;

 private:
  void handle_all();
  void step(const SupervisorEvent& event);
  void perform(const SupervisorEffect& effect);
  void tell_drain(const TellDrain& drain);
  void signal_groups(int signo);
  void kill(bool names);
  void tell_killed();
  void tell_leftovers(event::LeftoversFound found);
  void tell_killed_early(const TellKilledEarly& killed);
  void close_attempt(Duration timeout);
  void spawn(int local_rank);
  [[nodiscard]] Result<pid_t> start_worker(int local_rank);
  [[nodiscard]] bool lost_connection(const WorkerExit& exit);
  [[nodiscard]] int rank_of(int local_rank) const;

  WorkerSite& site_;
  RoundSource& rounds_;
  SupervisorCore core_;
  Result<std::vector<ProcessSpec>> specs_;
  std::deque<SupervisorEvent> events_;  // came while another one was handled
  std::deque<SupervisorEffect> effects_;
  bool handling_ = false;
  bool names_killed_ = false;  // what is killed now was left behind
};

}  // namespace muster
