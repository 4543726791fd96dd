// SPDX-License-Identifier: Apache-2.0
// LinuxRunner: the real ProcessRunner. Created by the agent after prepare_process, in a process
// that is a child subreaper (run_guarded ensures both). Runs on the io_context's single thread,
// which must outlive the workers because their parent-death signal is tied to it. Its pending wait
// keeps io_context::run busy until the runner is destroyed or the context is stopped. Resource.
#pragma once

#include "base/error.hpp"
#include "process/values/process_runner.hpp"
#include "process/warm/spare_workers.hpp"
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
  bool colours = true;  // coloured prefixes if the console is a terminal; false for NO_COLOR
  // While finish_output waits for a slow console, it gives up as soon as this descriptor is
  // readable (the guard's link: a second signal, or EOF). -1 if there is no such descriptor.
  int interrupt_fd = -1;
  bool traceable = false;  // our other children may inspect workers' stacks
  // See terminal_watch.hpp. Called with SIGTSTP for the job. If empty, the terminal is not watched.
  // Must be empty if the guard has a lease, because such a guard resumes itself.
  std::function<void(int)> signal_job = {};
  bool tell_unread_input = false;  // warn if our standard input has data
  // Called while exited children can still be inspected.
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
  // Starts the zygote. If a zygote is already running, checks that its imported modules are still
  // current, and replaces the zygote if they are not. Call before each attempt. The observer
  // receives the result and must outlive the runner.
  void prepare_zygote(const ProcessSpec& spec, ZygoteObserver& observer);

  // Keeps spare workers until the workers are stopped. Missing ones are started after kSpareDelay.
  // A spawn for a replacement uses a spare worker that is ready.
  void keep_spares(SpareWorkers spares);

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

  // Bytes that a worker has written to files or to streams that we read; none if it inherited our
  // streams.
  [[nodiscard]] std::optional<std::uint64_t> output_bytes(int local_rank) const;

  // Descriptors of the workers' flight recorders; read them immediately.
  [[nodiscard]] std::vector<int> flight_recorders() const;

  // Handles a signal for the job; true if it was SIGWINCH. SIGWINCH is sent to the worker that has
  // our standard input. After SIGCONT, checks whether that worker may read from the terminal.
  bool take_terminal_signal(int signo);

  // This child, which the agent has started, and its descendants are not leftovers of workers.
  void spare(pid_t pid);

  // Sends SIGKILL to one worker if it is alive, and to its process group like kill_workers.
  void kill_worker(int local_rank);

  // Bytes of worker output that passed through this process.
  [[nodiscard]] std::uint64_t output_bytes() const;

  // Call at the end of the job, after the last line: waits at most `timeout` for the console.
  void finish_console(Duration timeout);

  // Call before the job's last lines. Discards output that the console has not accepted, and
  // reports how much was lost.
  void tell_unshown();

  // True if workers' output is lost: it could not be written to the console (for example because a
  // disk is full), and no log file contains it.
  [[nodiscard]] bool has_lost_output() const;

 private:
  struct Impl;

  explicit LinuxRunner(std::shared_ptr<Impl> impl);

  std::shared_ptr<Impl> impl_;
};

}  // namespace muster
