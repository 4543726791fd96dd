// SPDX-License-Identifier: Apache-2.0
// Supervisor: steps the core with what the process runner sees and carries out the core's effects,
// in order. No sockets, no clock of its own: the agent and the simulator both stand around this
// same class. Lives on its owner's loop, single-threaded; resource type.
#pragma once

#include "agent/supervisor_core.hpp"
#include "process/process_runner.hpp"

#include <deque>
#include <optional>
#include <vector>

namespace muster {

// What the supervisor needs of the world besides processes.
class SupervisorSite {
 public:
  virtual ~SupervisorSite() = default;
  [[nodiscard]] virtual TimePoint now() = 0;
  [[nodiscard]] virtual double wall_seconds() = 0;
  [[nodiscard]] virtual ProcessRunner& runner() = 0;
  // A new store and the processes to start, one spec for each local rank in order.
  [[nodiscard]] virtual Result<std::vector<ProcessSpec>> open_round(int attempt, int restarts) = 0;
  // The attempt is over: finishes its output and adds the evidence to its failures.
  virtual void close_attempt(std::vector<WorkerFailure>& failures, Duration patience) = 0;
  virtual void warn(const std::string& words) = 0;
  // Last call of all.
  virtual void finished(const JobResult& result) = 0;

  // Jobs of many nodes only. Nothing of them is answered at once; the answers are events.
  virtual void await_round(int /*attempt*/) {}

  virtual void tell_gone() {}

  virtual void report_failure(const WorkerFailure& /*failure*/, Duration /*run_time*/) {}

  virtual void report_finished() {}

  virtual void leave_round(const std::string& /*reason*/) {}
};

// A round that the nodes have agreed on: what this one runs in it, or why it cannot, which is the
// failure of its first worker.
struct RoundToRun {
  int nproc = 1;
  int rank_first = 0;
  Result<std::vector<ProcessSpec>> specs;
};

class Supervisor : public ProcessObserver {
 public:
  Supervisor(SupervisorSite& site, SupervisorSettings settings);

  // Takes one event with all that follows from it at once. Called from inside a call to the site,
  // it is taken after what was begun.
  void handle(const SupervisorEvent& event);

  // Many nodes, between await_round and the next one.
  void run_round(RoundToRun round);

  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return core_.next_deadline(); }

  [[nodiscard]] const SupervisorCore& core() const { return core_; }

  void on_worker_exit(const WorkerExit& exit) override;
  void on_worker_dying(const WorkerExit& exit) override;
  void on_groups_empty() override;
  void on_nothing_left() override;

 private:
  void step(const SupervisorEvent& event);
  void perform(const SupervisorEffect& effect);
  void open_round(const OpenRound& effect);
  void spawn(int local_rank);
  [[nodiscard]] Result<pid_t> start_worker(int local_rank);
  void close_attempt(Duration patience);
  void finish();

  SupervisorSite& site_;
  SupervisorCore core_;
  Result<std::vector<ProcessSpec>> specs_;
  std::deque<SupervisorEvent> events_;  // came while another one was handled
  std::deque<SupervisorEffect> effects_;
  std::vector<WorkerFailure> failures_;  // of the closed attempt, with evidence
  std::vector<Survivor> survivors_;
  bool handling_ = false;
};

}  // namespace muster
