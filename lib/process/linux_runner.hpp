// SPDX-License-Identifier: Apache-2.0
// LinuxRunner: the real ProcessRunner. Made by the agent after block_signals, in a process that is
// a child subreaper (run_guarded sees to both). Lives on the io_context's one thread, which must
// live as long as the workers: their death signal is tied to it. Resource; its pending wait keeps
// io_context::run going until the runner is destroyed or the context is stopped.
#pragma once

#include "base/error.hpp"
#include "process/process_runner.hpp"

#include <memory>
#include <string>
#include <vector>

namespace asio {
class io_context;
}

namespace muster {

struct LinuxRunnerSettings {
  bool colours = true;  // prefixes in colour where the console is a terminal; false for NO_COLOR
  // While finish_output waits for a slow console, anything to read here (the guard's link: another
  // signal, or its end) makes it give up at once. -1: nothing does.
  int interrupt_fd = -1;
};

class LinuxRunner final : public ProcessRunner {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LinuxRunner>> open(
      asio::io_context& io, ProcessObserver& observer, const LinuxRunnerSettings& settings = {});
  ~LinuxRunner() override;
  LinuxRunner(const LinuxRunner&) = delete;
  LinuxRunner& operator=(const LinuxRunner&) = delete;

  [[nodiscard]] Result<pid_t> spawn(const ProcessSpec& spec) override;
  void signal_groups(int signo) override;
  void signal_workers(int signo) override;
  void kill_everything() override;
  [[nodiscard]] std::vector<Survivor> survivors() const override;
  [[nodiscard]] std::string stderr_tail(int local_rank) override;
  void finish_output(Duration patience) override;

 private:
  struct Impl;

  explicit LinuxRunner(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
