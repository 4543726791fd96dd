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
};

class Supervisor : public ProcessObserver {
 public:
  Supervisor(SupervisorSite& site, SupervisorSettings settings);

  // Takes one event with all that follows from it at once.
  void handle(const SupervisorEvent& event);

  [[nodiscard]] std::optional<TimePoint> next_deadline() const { return core_.next_deadline(); }

  [[nodiscard]] const SupervisorCore& core() const { return core_; }

  void on_worker_exit(const WorkerExit& exit) override;
  void on_groups_empty() override;
  void on_nothing_left() override;

 private:
  void step(const SupervisorEvent& event);
  void perform(const SupervisorEffect& effect);
  void open_round(const OpenRound& effect);
  void spawn(int local_rank);
  void close_attempt(Duration patience);
  void finish();

  SupervisorSite& site_;
  SupervisorCore core_;
  std::vector<ProcessSpec> specs_;
  std::deque<SupervisorEffect> effects_;
  std::vector<WorkerFailure> failures_;  // of the closed attempt, with evidence
  std::vector<Survivor> survivors_;
  bool handling_ = false;
};

}  // namespace muster
