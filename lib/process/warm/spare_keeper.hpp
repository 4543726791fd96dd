// SPDX-License-Identifier: Apache-2.0
// SpareKeeper: keeps spare workers running (--spare-workers), and turns one of them into the
// replacement of a failed worker. Part of LinuxRunner, on the loop's thread; resource.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"
#include "process/loop/poller.hpp"
#include "process/start/spawn.hpp"
#include "process/tree/sweeper.hpp"
#include "process/values/exit_status.hpp"
#include "process/values/process_spec.hpp"
#include "process/warm/spare_pool.hpp"
#include "process/warm/spare_workers.hpp"

#include <asio/steady_timer.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>

namespace asio {
class io_context;
}

namespace muster {

// How long the workers run before a missing spare worker is started, so that it does not compete
// with their first steps.
inline constexpr Duration kSpareDelay = std::chrono::seconds(1);

class SpareKeeper {
 public:
  // What the keeper needs from the runner.
  struct Runner {
    // Starts a process whose standard input is `input`.
    std::function<Result<pid_t>(const ProcessSpec& spec, int input)> start;
    // The process has exited: closes its streams, and returns the end of its stderr.
    std::function<std::string(int local_rank)> end_streams;
  };

  SpareKeeper(asio::io_context& io, Poller& poller, Sweeper& sweeper, Runner runner);
  ~SpareKeeper();
  SpareKeeper(const SpareKeeper&) = delete;
  SpareKeeper& operator=(const SpareKeeper&) = delete;

  // See LinuxRunner::keep_spares.
  void keep(SpareWorkers wanted);

  // Turns a spare worker into this worker. None if no spare worker is ready; the caller then starts
  // the worker.
  [[nodiscard]] std::optional<pid_t> take(const ProcessSpec& spec, const ChildStreams& streams);

  // True if the process was a spare worker.
  bool note_reaped(pid_t pid, const ExitStatus& status);

  // Stops and resumes the spare workers with the job: SIGSTOP or SIGCONT.
  void signal(int signo) const;

  // Kills the spare workers, and starts no more until the next keep().
  void stop();

 private:
  struct Spare;

  void fill_later();
  void fill();
  [[nodiscard]] Result<void> start_one();
  void read(pid_t pid);
  [[nodiscard]] std::unique_ptr<Spare> remove(pid_t pid);

  Poller& poller_;
  Sweeper& sweeper_;
  Runner runner_;
  asio::steady_timer timer_;
  SparePool pool_;
  SpareWorkers wanted_;
  std::map<pid_t, std::unique_ptr<Spare>> spares_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // guards against a late timer
};

}  // namespace muster
