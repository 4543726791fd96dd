// SPDX-License-Identifier: Apache-2.0
// CommandRunner: runs a shell command of the user as a helper process beside the workers, for
// EventCommands. Owned by the agent; lives on its loop. Resource: commands that still run are
// killed when it is destroyed.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "process/start/helper_process.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

// A command is killed after this time.
inline constexpr Duration kEventCommandTimeout = std::chrono::seconds(30);

// At the end of the job, muster waits this long for its commands.
inline constexpr Duration kEventCommandsAtEnd = std::chrono::seconds(5);

class CommandRunner {
 public:
  // Calls `started` with the pid of each command, because the command is no leftover of a worker.
  CommandRunner(asio::io_context& loop,
                std::string command,
                std::vector<std::string> environment,
                std::function<void(pid_t)> started)
      : loop_(loop),
        command_(std::move(command)),
        environment_(std::move(environment)),
        started_(std::move(started)) {}

  // See EventCommands::Start.
  [[nodiscard]] Result<void> run(const std::string& input, const std::function<void()>& ended);

 private:
  void end(std::uint64_t number, const std::function<void()>& ended);

  asio::io_context& loop_;
  std::string command_;
  std::vector<std::string> environment_;
  std::function<void(pid_t)> started_;
  std::map<std::uint64_t, std::unique_ptr<HelperProcess>> running_;
  std::uint64_t next_ = 0;
};

}  // namespace muster
