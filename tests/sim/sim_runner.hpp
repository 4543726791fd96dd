// SPDX-License-Identifier: Apache-2.0
// SimRunner: ProcessRunner over simulated processes. Workers are scripts; deaths, reaping and the
// news of them take random times. The world owns it. Resource, single-threaded.
#pragma once

#include "process/process_runner.hpp"
#include "sim/random.hpp"
#include "sim/scheduler.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::sim {

struct WorkerScript {
  std::optional<Error> spawn_error;
  std::optional<Duration> run_for;  // none: hangs until it is killed
  ExitStatus end;
  bool ignores_term = false;
  Duration term_delay{};   // from a signal to the end
  ExitStatus term_end;     // how it ends when asked to
  int group_children = 0;  // processes left in the worker's group, which take the same signals
  int daemons = 0;         // descendants that left the group
  bool unkillable = false;
  bool uses_library = false;  // its failures are seen before it is reaped
  Duration freeing{};         // from its death to its reaping, besides the usual delay
};

class SimRunner final : public ProcessRunner {
 public:
  using ScriptOf = std::function<WorkerScript(const ProcessSpec& spec)>;

  SimRunner(Scheduler& scheduler, Random& random, ProcessObserver& observer, ScriptOf script_of);

  [[nodiscard]] Result<pid_t> spawn(const ProcessSpec& spec) override;
  void signal_groups(int signo) override;
  void signal_workers(int signo) override;
  void kill_everything() override;
  [[nodiscard]] std::vector<Survivor> survivors() const override;
  [[nodiscard]] std::string stderr_tail(int local_rank) override;
  void finish_output(Duration timeout) override;

  // For the checkers.
  [[nodiscard]] std::size_t alive() const;
  [[nodiscard]] std::size_t workers_alive() const;
  // Dead ones whose memory is not free yet count.
  [[nodiscard]] std::size_t unreaped() const;

  [[nodiscard]] int kills() const { return kills_; }

 private:
  struct Process {
    pid_t leader = 0;     // of the group that it is in; 0: one of its own
    int local_rank = -1;  // of a worker's main process
    WorkerScript script;
    bool stopping = false;
    bool dead = false;
    bool reaped = false;
  };

  pid_t add(Process process);
  void ask_to_stop(pid_t pid, int signo);
  void die(pid_t pid, ExitStatus status);
  void report_end(pid_t pid, ExitStatus status);
  void look_whether_empty();
  Duration soon();

  Scheduler& scheduler_;
  Random& random_;
  ProcessObserver& observer_;
  ScriptOf script_of_;
  std::map<pid_t, Process> processes_;
  pid_t next_pid_ = 100;
  bool groups_reported_ = true;  // nothing to report before the first spawn
  bool killing_ = false;
  int kills_ = 0;  // calls of kill_everything
};

}  // namespace muster::sim
