// SPDX-License-Identifier: Apache-2.0
// LinuxRunner: the real ProcessRunner. Made by the agent after prepare_process, in a process that
// is a child subreaper (run_guarded sees to both). Lives on the io_context's one thread, which must
// live as long as the workers: their death signal is tied to it. Resource; its pending wait keeps
// io_context::run going until the runner is destroyed or the context is stopped.
#pragma once

#include "base/error.hpp"
#include "process/values/process_runner.hpp"
#include "process/warm/zygote_observer.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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
  bool traceable = false;  // workers' stacks may be looked at by our other children
  // terminal_watch.hpp. Not where the guard has a lease: that one continues itself.
  // Called with SIGTSTP for the job. Empty: the terminal is not watched.
  std::function<void(int)> signal_job = {};
  bool tell_unread_input = false;  // say so if our standard input has something
  // Children that have ended can still be looked at.
  std::function<void()> before_reaping = [] {};
};

class LinuxRunner final : public ProcessRunner {
 public:
  [[nodiscard]] static Result<std::unique_ptr<LinuxRunner>> open(
      asio::io_context& io, ProcessObserver& observer, const LinuxRunnerSettings& settings = {});
  ~LinuxRunner() override;
  LinuxRunner(const LinuxRunner&) = delete;
  LinuxRunner& operator=(const LinuxRunner&) = delete;

  [[nodiscard]] Result<pid_t> spawn(const ProcessSpec& spec) override;
  // Starts the zygote, or asks the one that is there whether what it has imported is still what
  // lies on the disk; if not, another one takes its place. Called before each attempt. The observer
  // hears the answer, and must live as long as the runner.
  void prepare_zygote(const ProcessSpec& spec, ZygoteObserver& observer);

  void signal_groups(int signo) override;
  void signal_workers(int signo) override;
  void await_nothing_left() override;
  void kill_workers() override;
  void kill_everything() override;
  std::vector<Leftover> ask_leftovers() override;
  [[nodiscard]] std::vector<Leftover> leftovers() const override;
  [[nodiscard]] bool only_deaf_left() const override;
  [[nodiscard]] std::vector<Leftover> take_killed() override;
  [[nodiscard]] std::vector<Survivor> survivors() const override;
  [[nodiscard]] std::string stderr_tail(int local_rank) override;
  void finish_output(Duration timeout) override;

  // Bytes that a worker has written to streams that we read or that are files; none where it has
  // our own streams.
  [[nodiscard]] std::optional<std::uint64_t> output_bytes(int local_rank) const;

  // What workers have given us of their flight recorders, as descriptors to be read at once.
  [[nodiscard]] std::vector<int> flight_recorders() const;

  // A signal for the job. SIGWINCH (true: it is done) goes to the worker that has our standard
  // input; after SIGCONT it is checked whether that worker may read the terminal.
  bool take_terminal_signal(int signo);

  // SIGKILL to one worker, as far as it lives, and to its process group as kill_workers does.
  void kill_worker(int local_rank);

  // Of the workers, as far as it went through this process.
  [[nodiscard]] std::uint64_t output_bytes() const;

  // Muster's own lines, on standard error, in order with what the workers print. Never waits.
  void say(std::string_view text);

  // At the end of the job, after the last line: waits for the console for at most `timeout`.
  void finish_console(Duration timeout);

  // Output that nobody read is reported before the last lines.
  void tell_unshown();

  // Output of workers that the console refused (a full disk) and no log file holds.
  [[nodiscard]] bool has_lost_output() const;

 private:
  struct Impl;

  explicit LinuxRunner(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
