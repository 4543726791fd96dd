// SPDX-License-Identifier: Apache-2.0
// ZygoteKeeper: keeps a zygote running while one is needed, and ensures that its imported modules
// are current. Part of LinuxRunner, on the loop's thread; resource.
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

// The time limit for the imports. They may come from a slow file system. A cold worker would wait
// for them without a limit.
inline constexpr Duration kImportTimeout = std::chrono::minutes(10);

// The time limit for checking that the modules are current. The check calls stat for several
// hundred files. It may also have to wait until the zygote has finished importing a package.
inline constexpr Duration kLookTimeout = std::chrono::seconds(10);

class ZygoteKeeper {
 public:
  // The zygote outlives attempts, so `sweeper` spares it.
  ZygoteKeeper(asio::io_context& io, Poller& poller, Sweeper& sweeper)
      : poller_(poller), sweeper_(sweeper), answer_timer_(io) {}

  // See LinuxRunner::prepare_zygote.
  void prepare(const ProcessSpec& spec, ZygoteObserver& observer);

  // The zygote's pid; 0 if no zygote is running.
  [[nodiscard]] pid_t pid() const { return zygote_ ? zygote_->pid() : 0; }

  void note_reaped(pid_t pid);

  // None if there is no zygote or the fork fails. The caller then starts the worker cold.
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
  bool is_awaited_ = false;  // workers wait until the zygote is ready
  bool is_asked_ = false;    // a query is pending; do not send a second one
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // guards against a late timer
};

}  // namespace muster
