// SPDX-License-Identifier: Apache-2.0
// ProcessRunner: the interface to real or simulated processes. LinuxRunner is the real
// implementation; the simulator has its own. Used by agent/ on the loop's thread only. Observers
// are called from the loop, never from within a call to the runner.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "process/values/exit_status.hpp"
#include "process/values/process_spec.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

inline constexpr std::size_t kStderrTailBytesMax = std::size_t{64} * 1024;

struct WorkerExit {
  int local_rank = 0;
  pid_t pid = 0;
  ExitStatus status;
  bool out_of_memory = false;  // the memory cgroup counted an OOM kill during this worker's life
  std::string memory_usage;    // "limit 512 MiB, peak 512 MiB" if the cgroup reports it
  // "process 123 (python3)": the descendant that failed in this way; the worker was killed because
  // of it (--on-child-death). Empty if the worker itself died.
  std::string lost_child = {};
  bool operator==(const WorkerExit&) const = default;
};

// A process that still exists although it was killed. `state` is as in /proc/<pid>/stat.
struct Survivor {
  pid_t pid = 0;
  char state = '?';
  std::string command;
};

// A process that a worker left running, and that worker's rank if known.
struct Leftover {
  pid_t pid = 0;
  std::string command;
  std::optional<int> rank;
  bool operator==(const Leftover&) const = default;
};

// Properties of the leftover processes as a group.
struct LeftoversSeen {
  bool only_deaf = false;    // all of them ignore SIGTERM
  bool shm_manager = false;  // PyTorch's torch_shm_manager is among them
};

// Time for leftover processes to exit on their own after the worker has exited. Python's resource
// tracker removes shared memory when its pipe reaches EOF. This usually takes milliseconds. On an
// overloaded machine it may take the whole time.
inline constexpr Duration kSelfExitTime = std::chrono::seconds(1);

// Time for torch_shm_manager to exit on its own. It removes the shared memory of dead workers only
// after it has had no client for 2 s (SHUTDOWN_TIMEOUT in torch/lib/libshm/manager.cpp). SIGTERM
// kills it.
inline constexpr Duration kShmManagerTime = std::chrono::seconds(4);
inline constexpr Duration kShmManagerTimeInHurry = std::chrono::milliseconds(2400);

class ProcessObserver {
 public:
  virtual ~ProcessObserver() = default;
  virtual void on_worker_exit(const WorkerExit& exit) = 0;

  // A worker is dying from this failure, but has not been reaped: the kernel is still freeing its
  // memory, so it still holds its resources. on_worker_exit follows. Called only for workers that
  // use the collective library and for those that were dying before the first failure was reported.
  virtual void on_worker_dying(const WorkerExit& /*exit*/) {}

  // Called once after the last worker was reaped and all process groups (all processes that
  // received our signals) are empty. Called again if that happens after a later spawn. Descendants
  // that left their group may still exist.
  virtual void on_groups_empty() = 0;
  // Called once after await_nothing_left, kill_workers or kill_everything, when this process has no
  // descendants left.
  virtual void on_nothing_left() = 0;
};

// The workers whose process groups get a signal.
enum class GroupsOf : std::uint8_t {
  all_workers,
  running_workers,  // not those whose main process has exited or is exiting
  skipped_workers,  // those that an earlier call for running_workers did not include
};

class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;

  // Starts a worker in its own session and process group. Also returns errors that occur in the
  // child before or in exec: not_found (the program), not_possible, system.
  [[nodiscard]] virtual Result<pid_t> spawn(const ProcessSpec& spec) = 0;

  // Signals every process in the groups of these workers, including groups whose leader is dead.
  virtual void signal_groups(int signo, GroupsOf which) = 0;

  // Signals only the main process of each live worker.
  virtual void signal_workers(int signo) = 0;

  // Kills what a failed worker leaves: its process group, and its descendants that left the group.
  // Spares helpers that ignore SIGTERM, like kill_workers. The other workers continue to run.
  virtual void kill_tree(int local_rank, int rank) = 0;

  // Requests a call to on_nothing_left.
  virtual void await_nothing_left() = 0;

  // Sends SIGKILL to the workers and their process groups. Spares helpers that ignore SIGTERM and
  // exit on their own when they are no longer needed.
  virtual void kill_workers() = 0;

  // Sends SIGKILL to every descendant of this process, including those that left their group or
  // session, until none remains.
  virtual void kill_everything() = 0;

  // Sends SIGTERM once to every descendant. Returns those that do not ignore it.
  virtual std::vector<Leftover> ask_leftovers() = 0;

  // Descendants that are currently running.
  [[nodiscard]] virtual std::vector<Leftover> leftovers() const = 0;

  [[nodiscard]] virtual LeftoversSeen look_at_leftovers() const = 0;

  // Descendants that were killed since the last call.
  [[nodiscard]] virtual std::vector<Leftover> take_killed() = 0;

  // Descendants that still exist, for the message about processes that could not be killed.
  [[nodiscard]] virtual std::vector<Survivor> survivors() const = 0;

  // The last whole lines (at most kStderrTailBytesMax bytes) that a worker wrote to its standard
  // error, captured or in a file; empty if it was inherited.
  [[nodiscard]] virtual std::string stderr_tail(int local_rank) = 0;

  // Forwards the workers' remaining output to the console and closes the files. Waits for the
  // console for at most `timeout` in total, and counts the output that it did not accept. Called
  // after an attempt.
  virtual void finish_output(Duration timeout) = 0;
};

}  // namespace muster
