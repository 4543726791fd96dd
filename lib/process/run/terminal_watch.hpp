// SPDX-License-Identifier: Apache-2.0
// TerminalWatch: job control for a worker that reads the terminal. Workers have sessions of their
// own, so the kernel does not stop one that reads while the job is in the background: it would take
// the lines that are typed at the shell. While the guard's group is in the background, this watch
// polls whether a process of that worker waits for the terminal. If so, it stops the job as the
// kernel would: SIGTTIN for the guard's group, SIGSTOP for the workers. Part of LinuxRunner;
// resource.
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
    std::function<pid_t()> worker;        // that has our standard input; 0: none now
    std::function<void(int)> signal_job;  // SIGTSTP for the workers; empty: nothing is polled
  };

  TerminalWatch(asio::io_context& io, Parts parts);

  // A signal for the job. SIGWINCH (true: that is all) goes to the group of that worker; SIGCONT
  // makes a check due.
  bool take_signal(int signo);

  // At the start, and after each SIGCONT for the job: the only ways into the background.
  void check();

 private:
  void poll_later();
  void poll();

  asio::steady_timer timer_;
  Parts parts_;
  dev_t terminal_ = 0;  // 0: standard input is no terminal
};

// Of /proc/PID/stat: where the process stands with its controlling terminal.
struct TerminalGroups {
  char state = '?';
  pid_t parent = 0;
  pid_t group = 0;
  pid_t session = 0;
  pid_t foreground = 0;  // -1: it has no terminal

  [[nodiscard]] bool is_background() const { return foreground > 0 && foreground != group; }
};

[[nodiscard]] std::optional<TerminalGroups> parse_terminal_groups(std::string_view stat);

// The descriptor that a system call waits to read from, and alone: read(), or select() and the like
// for descriptor 0 only. `call` is what /proc/PID/syscall contains; none: it waits for something
// else.
[[nodiscard]] std::optional<int> awaited_descriptor(std::string_view call);

}  // namespace muster
