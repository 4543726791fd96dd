// SPDX-License-Identifier: Apache-2.0
// ZygoteKeeper: sees to it that a zygote is there while one is wanted, and that it has imported
// what lies on the disk. Part of LinuxRunner, on the loop's thread; resource.
#pragma once

#include "process/tree/sweeper.hpp"
#include "process/warm/zygote.hpp"
#include "process/warm/zygote_observer.hpp"

#include <asio/steady_timer.hpp>

#include <memory>
#include <optional>
#include <string>

namespace asio {
class io_context;
}

namespace muster {

// For the imports. They may come from a slow file system, and a worker that is started cold would
// wait for them without an end.
inline constexpr Duration kImportTimeout = std::chrono::minutes(10);

// Whether its modules are still those of the disk: a look at some hundred files.
inline constexpr Duration kLookTimeout = std::chrono::seconds(5);

class ZygoteKeeper {
 public:
  // The zygote outlives attempts: `sweeper` spares it.
  ZygoteKeeper(asio::io_context& io, Poller& poller, Sweeper& sweeper)
      : poller_(poller), sweeper_(sweeper), answer_timer_(io) {}

  // As LinuxRunner::prepare_zygote.
  void prepare(const ProcessSpec& spec, ZygoteObserver& observer);

  // 0: there is none.
  [[nodiscard]] pid_t pid() const { return zygote_ ? zygote_->pid() : 0; }

  void note_reaped(pid_t pid);

  // None: there is no zygote, or it is lost in the attempt, so the worker is to be started cold.
  [[nodiscard]] std::optional<pid_t> fork(const ProcessSpec& spec, const ChildStreams& streams);

 private:
  void start();
  void limit(Duration timeout);
  void take(const Zygote::News& news);
  void lose(const std::string& why);

  Poller& poller_;
  Sweeper& sweeper_;
  asio::steady_timer answer_timer_;
  std::unique_ptr<Zygote> zygote_;
  ProcessSpec spec_;
  ZygoteObserver* observer_ = nullptr;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for a timer that comes too late
};

}  // namespace muster
