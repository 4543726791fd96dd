// SPDX-License-Identifier: Apache-2.0
// ProcessRunner: where the world of processes begins. LinuxRunner is the real one; the simulator
// has its own. Used by agent/ on the loop's thread only. Observers are called from the loop, never
// from inside a call to the runner.
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
  bool out_of_memory = false;  // the kernel's memory cgroup counted a kill in this worker's time
  std::string memory_usage;    // "limit 512 MiB, peak 512 MiB" where the cgroup says so
  // "process 123 (python3)": not the worker ended like this, but a process below it, and the worker
  // was killed for it (--on-child-death). Empty: the worker itself.
  std::string lost_child = {};
};

// A process that is still there although it was killed: state as in /proc/<pid>/stat.
struct Survivor {
  pid_t pid = 0;
  char state = '?';
  std::string command;
};

// A process that a worker has left running, and the rank of that worker where it is known.
struct Leftover {
  pid_t pid = 0;
  std::string command;
  std::optional<int> rank;
  bool operator==(const Leftover&) const = default;
};

// What a worker leaves behind may exit by itself when the worker is gone: Python's resource tracker
// and torch_shm_manager remove shared memory at the end of their pipe. They need milliseconds; so
// long they get, on a machine that is overloaded.
inline constexpr Duration kSelfExitTime = std::chrono::seconds(1);

class ProcessObserver {
 public:
  virtual ~ProcessObserver() = default;
  virtual void on_worker_exit(const WorkerExit& exit) = 0;

  // A worker has begun to end like this, which is no success, but the kernel still frees its
  // memory: it is not reaped, and holds what it held. on_worker_exit follows. Only of workers that
  // use the collective library, and of those that were dying before the first failure was reported.
  virtual void on_worker_dying(const WorkerExit& /*exit*/) {}

  // Once after the last worker was reaped and its process group (all that received our signals)
  // is empty, and again after each later spawn. Descendants that left their group may remain.
  virtual void on_groups_empty() = 0;
  // Once after await_nothing_left, kill_workers or kill_everything: no descendant of this process
  // is left.
  virtual void on_nothing_left() = 0;
};

class ProcessRunner {
 public:
  virtual ~ProcessRunner() = default;

  // Starts a worker in a session and process group of its own. Errors are those of the child's
  // last system call before exec: not_found (the program), not_possible, system.
  [[nodiscard]] virtual Result<pid_t> spawn(const ProcessSpec& spec) = 0;

  // To every process in the groups of all workers, those of dead leaders included.
  virtual void signal_groups(int signo) = 0;

  // To the main process of each live worker only.
  virtual void signal_workers(int signo) = 0;

  // From now on on_nothing_left is due.
  virtual void await_nothing_left() = 0;

  // SIGKILL to the workers and to what is in their process groups, but for helpers that ignore
  // SIGTERM and exit by themselves when nobody needs them any more.
  virtual void kill_workers() = 0;

  // SIGKILL to every descendant of this process, also those that left their group or session,
  // until none is left.
  virtual void kill_everything() = 0;

  // SIGTERM, once, to every descendant. Returns those that do not ignore it.
  virtual std::vector<Leftover> ask_leftovers() = 0;

  // Descendants that run now.
  [[nodiscard]] virtual std::vector<Leftover> leftovers() const = 0;

  // Whether all descendants ignore SIGTERM.
  [[nodiscard]] virtual bool only_deaf_left() const = 0;

  // Descendants that were killed since the last call.
  [[nodiscard]] virtual std::vector<Leftover> take_killed() = 0;

  // Descendants that still exist, for the message about what could not be killed.
  [[nodiscard]] virtual std::vector<Survivor> survivors() const = 0;

  // The last bytes (at most kStderrTailBytesMax, whole lines) that a worker wrote to its standard
  // error, whether captured or in a file; empty where it was inherited.
  [[nodiscard]] virtual std::string stderr_tail(int local_rank) = 0;

  // Passes on to the console what workers wrote so far and closes the files. Blocks; waits for the
  // console for at most `timeout` in all, and counts what it did not take. Called after the end of
  // an attempt.
  virtual void finish_output(Duration timeout) = 0;
};

}  // namespace muster
