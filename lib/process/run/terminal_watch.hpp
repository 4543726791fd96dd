// SPDX-License-Identifier: Apache-2.0
// TerminalWatch: job control for a worker that reads from the terminal. Workers have their own
// sessions. The kernel therefore does not stop a worker that reads while the job is in the
// background, and the worker would steal lines typed at the shell. While the guard's group is in
// the background, this watch polls whether a process of the worker waits for terminal input. If so,
// it stops the job as the kernel would: SIGTTIN to the guard's group, SIGSTOP to the workers. Part
// of LinuxRunner; resource.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <functional>
#include <optional>
#include <string_view>

#include <sys/types.h>

namespace muster {

class TerminalWatch {
 public:
  struct Parts {
    pid_t guard = 0;
    std::function<pid_t()> worker;        // pid of the worker with our standard input, or 0
    std::function<void(int)> signal_job;  // sends SIGTSTP to workers; no polling if empty
  };

  TerminalWatch(asio::io_context& io, Parts parts);

  // Handles a signal for the job; true if it was SIGWINCH. SIGWINCH is forwarded to the group of
  // the worker that has our standard input. SIGCONT triggers a check.
  bool take_signal(int signo);

  // Call at the start and after each SIGCONT for the job: only then can the job have moved to the
  // background.
  void check();

 private:
  void poll_later();
  void poll();

  asio::steady_timer timer_;
  Parts parts_;
  dev_t terminal_ = 0;  // 0 if standard input is not a terminal
};

// From /proc/PID/stat: the process's relation to its controlling terminal.
struct TerminalGroups {
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  pid_t foreground = 0;  // -1 if it has no terminal

  [[nodiscard]] bool is_background() const { return foreground > 0 && foreground != group; }
};

[[nodiscard]] std::optional<TerminalGroups> parse_terminal_groups(std::string_view stat);

// The descriptor that a process waits to read, if it waits for only one: in read(), or in select()
// and similar calls on descriptor 0 alone. `call` is the content of /proc/PID/syscall. None if the
// process waits for something else.
[[nodiscard]] std::optional<int> awaited_descriptor(std::string_view call);

}  // namespace muster
