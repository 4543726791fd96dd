// SPDX-License-Identifier: Apache-2.0
// EndWatch: tracks dying and reaped workers until their exits have been reported to the observer.
// Reads /proc if EndQueue needs more information before it reports the first failure. Part of
// LinuxRunner, on its thread. Resource.
#pragma once

#include "process/deaths/death_watch.hpp"
#include "process/run/end_queue.hpp"
#include "process/run/worker_table.hpp"
#include "process/values/process_runner.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <sys/types.h>

namespace asio {
class io_context;
}

namespace muster {

class EndWatch {
 public:
  // `due` is called from the loop when tell() must be called again.
  EndWatch(asio::io_context& loop, Poller& poller, WorkerTable& workers, std::function<void()> due);
  ~EndWatch();
  EndWatch(const EndWatch&) = delete;
  EndWatch& operator=(const EndWatch&) = delete;

  // Call before the first worker of an attempt is started.
  void begin_attempt();

  // Records workers that hold a liveness word and have started to die.
  void look_for_dying();

  void note_reaped(pid_t pid, const LiveWorker& worker, ExitStatus status);

  // Reports the known exits. False if the attempt's first failure is held back because of another
  // worker.
  bool tell(ProcessObserver& observer);

 private:
  void note_dying(pid_t pid, const ExitStatus& status);
  [[nodiscard]] bool look_at_all();
  [[nodiscard]] WorkerExit describe(pid_t pid, const LiveWorker& worker, ExitStatus status) const;
  void set_timer(TimePoint until);

  struct Timer;

  WorkerTable& workers_;
  std::function<void()> due_;
  DeathWatch death_watch_;
  EndQueue ends_;
  std::shared_ptr<Timer> timer_;
  bool memory_known_ = false;
  std::string memory_group_;
  std::optional<std::uint64_t> kills_before_;
};

}  // namespace muster
