// SPDX-License-Identifier: Apache-2.0
// SimRunner: a ProcessRunner for simulated processes. Workers are scripts. Deaths, reaping and
// notifications take random times. Owned by the world. Resource, single-threaded.
#pragma once

#include "process/values/process_runner.hpp"
#include "process/warm/spare_pool.hpp"
#include "sim/random.hpp"
#include "sim/scheduler.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::sim {

struct WorkerScript {
  std::optional<Error> spawn_error;
  std::optional<Duration> run_for;  // nullopt: hangs until killed
  ExitStatus end;
  bool ignores_term = false;
  Duration term_delay{};   // from a signal to the exit
  ExitStatus term_end;     // exit status after a stop request
  int group_children = 0;  // processes left in the worker's group, which receive the same signals
  int daemons = 0;         // descendants that left the group
  std::optional<Duration> daemon_runs_for;  // nullopt: until asked to stop or killed
  int helpers = 0;           // in the group, ignore SIGTERM and exit when all workers are gone
  bool shm_manager = false;  // a daemon that exits kManagerNeeds after all workers are gone
  bool unkillable = false;
  bool uses_library = false;  // its failures are noticed before it is reaped
  Duration freeing{};         // additional delay from its death to its reaping
};

// Spare workers use their own random sequence, so that other seeds stay the same.
struct SpareFaults {
  int exiting_percent = 0;  // spare workers that exit before they are used
  std::uint64_t seed = 0;
};

class SimRunner final : public ProcessRunner {
 public:
  using ScriptOf = std::function<WorkerScript(const ProcessSpec& spec)>;

  SimRunner(Scheduler& scheduler,
            Random& random,
            ProcessObserver& observer,
            ScriptOf script_of,
            SpareFaults spare_faults);

  // Like LinuxRunner::keep_spares.
  void keep_spares(int count);

  [[nodiscard]] Result<pid_t> spawn(const ProcessSpec& spec) override;
  void signal_groups(int signo, GroupsOf which) override;
  void signal_workers(int signo) override;
  void kill_tree(int local_rank, int rank) override;
  void await_nothing_left() override;
  void kill_workers() override;
  void kill_everything() override;
  std::vector<Leftover> ask_leftovers() override;
  [[nodiscard]] std::vector<Leftover> leftovers() const override;
  [[nodiscard]] LeftoversSeen look_at_leftovers() const override;
  [[nodiscard]] std::vector<Leftover> take_killed() override;
  [[nodiscard]] std::vector<Survivor> survivors() const override;
  [[nodiscard]] std::string stderr_tail(int local_rank) override;
  void finish_output(Duration timeout) override;

  [[nodiscard]] bool runs(int local_rank) const;
  // The worker exits on its own, if it runs.
  void exit_worker(int local_rank, ExitStatus status);

  // For the checkers.
  [[nodiscard]] std::size_t alive() const;
  [[nodiscard]] std::size_t workers_alive() const;
  // Includes dead processes whose memory is not free yet.
  [[nodiscard]] std::size_t unreaped() const;
  [[nodiscard]] bool is_unreaped(int local_rank) const;

  [[nodiscard]] int kills() const { return kills_; }

  // Helpers killed before they had time to exit after the last worker.
  [[nodiscard]] int helpers_killed_early() const { return helpers_killed_early_; }

  // torch_shm_managers asked to stop or killed before they had removed shared memory.
  [[nodiscard]] int managers_hurried() const { return managers_hurried_; }

  // Daemons asked to stop or killed less than `kSelfExitTime` after the last worker.
  [[nodiscard]] int daemons_hurried() const { return daemons_hurried_; }

 private:
  struct Process {
    pid_t leader = 0;     // leader of its process group; 0: it is the leader
    int local_rank = -1;  // set for a worker's main process
    WorkerScript script;
    bool spare = false;  // a spare worker
    bool helper = false;
    bool manager = false;
    bool stopping = false;
    bool skipped = false;  // its leader had exited when the running workers got a signal
    bool dead = false;
    bool reaped = false;
  };

  pid_t add(Process process);
  void fill_spares_later();
  void start_spare();
  [[nodiscard]] std::optional<pid_t> take_spare();
  void note_spare_exit(pid_t pid);
  void stop_spares();
  void ask_to_stop(pid_t pid, int signo);
  void die(pid_t pid, ExitStatus status);
  void report_end(pid_t pid, ExitStatus status);
  void kill(pid_t pid);
  void add_family(pid_t leader, const WorkerScript& script);
  void let_helpers_exit();
  void note_hurried(const Process& process);
  [[nodiscard]] std::vector<Leftover> running() const;
  void look_whether_empty();
  Duration soon();

  Scheduler& scheduler_;
  Random& random_;
  ProcessObserver& observer_;
  ScriptOf script_of_;
  SpareFaults spare_faults_;
  Random spare_random_;
  SparePool pool_;
  std::map<pid_t, Process> processes_;
  pid_t next_pid_ = 100;
  bool groups_reported_ = true;  // nothing to report before the first spawn
  bool awaiting_ = false;
  int kills_ = 0;                          // number of kill_everything calls
  std::optional<TimePoint> workers_gone_;  // reaped: their memory and their pipes are free
  bool frees_slowly_ = false;              // a worker of this attempt keeps its pipes open for long
  int helpers_killed_early_ = 0;
  int daemons_hurried_ = 0;
  int managers_hurried_ = 0;
  std::vector<Leftover> killed_;
};

}  // namespace muster::sim
