// SPDX-License-Identifier: Apache-2.0
#include "process/run/terminal_watch.hpp"

#include "base/time.hpp"
#include "process/start/inherited_state.hpp"
#include "process/tree/descendants.hpp"
#include "process/values/proc_file.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <string>
#include <utility>

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr Duration kPoll = std::chrono::milliseconds(100);
constexpr std::size_t kProcBytesMax = 4096;

// System calls that wait for descriptors lower than their first argument.
#ifdef SYS_select
constexpr std::array<long, 2> kSelects{SYS_select, SYS_pselect6};
#else
constexpr std::array<long, 1> kSelects{SYS_pselect6};
#endif

std::string proc_file(pid_t pid, const std::string& file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

dev_t terminal_of(const std::string& path) {
  struct stat facts {};

  return ::stat(path.c_str(), &facts) == 0 && S_ISCHR(facts.st_mode) ? facts.st_rdev : 0;
}

bool waits_for(dev_t terminal, pid_t pid) {
  const auto fd = awaited_descriptor(read_proc_file(proc_file(pid, "syscall"), kProcBytesMax));
  return fd && terminal_of(proc_file(pid, "fd/" + std::to_string(*fd))) == terminal;
}

bool any_waits_for(dev_t terminal, pid_t worker) {
  if (waits_for(terminal, worker)) {
    return true;
  }
  for (const ProcessRow& row : descendants(worker)) {
    if (waits_for(terminal, row.pid)) {
      return true;
    }
  }
  return false;
}

std::optional<TerminalGroups> groups_of(pid_t pid) {
  return parse_terminal_groups(read_proc_file(proc_file(pid, "stat"), kProcBytesMax));
}

// The kernel does not stop an orphaned group, because no shell (a parent in the same session but
// outside the group) could continue it. The worker then keeps the terminal.
bool is_orphaned(TerminalGroups process) {
  const auto [group, session] = std::pair(process.group, process.session);
  while (process.group == group) {
    const auto parent = groups_of(process.parent);
    if (!parent) {
      return true;
    }
    process = *parent;
  }
  return process.session != session;
}

}  // namespace

std::optional<TerminalGroups> parse_terminal_groups(std::string_view stat) {
  const auto close = stat.rfind(')');
  if (close == std::string_view::npos) {
    return std::nullopt;
  }
  TerminalGroups out;
  const std::string rest(stat.substr(close + 1));
  const int count = std::sscanf(rest.c_str(),
                                " %c %d %d %d %*d %d",
                                &out.state,
                                &out.parent,
                                &out.group,
                                &out.session,
                                &out.foreground);
  return count == 5 ? std::optional(out) : std::nullopt;
}

std::optional<int> awaited_descriptor(std::string_view call) {
  long number = -1;
  unsigned long first = 0;
  if (std::sscanf(std::string(call).c_str(), "%ld %lx", &number, &first) != 2) {
    return std::nullopt;  // "running", or unreadable
  }
  if (number == SYS_read || number == SYS_readv) {
    return static_cast<int>(first);
  }
  const bool selects = std::ranges::find(kSelects, number) != kSelects.end();
  return selects && first == 1 ? std::optional(0) : std::nullopt;
}

TerminalWatch::TerminalWatch(asio::io_context& io, Parts parts)
    : timer_(io), parts_(std::move(parts)) {
  const bool may_stop = sigismember(&inherited_state().ignored, SIGTTIN) == 0;
  if (may_stop && ::isatty(0) == 1) {
    terminal_ = terminal_of("/proc/self/fd/0");
  }
}

bool TerminalWatch::take_signal(int signo) {
  if (const pid_t worker = parts_.worker(); signo == SIGWINCH && worker > 1) {
    ::kill(-worker, SIGWINCH);
  }
  if (signo == SIGCONT) {
    check();
  }
  return signo == SIGWINCH;
}

void TerminalWatch::check() {
  if (terminal_ != 0 && parts_.signal_job) {
    poll_later();
  }
}

void TerminalWatch::poll_later() {
  timer_.expires_after(kPoll);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) {
      poll();
    }
  });
}

// Stops polling if the job is stopped or in the foreground; the next SIGCONT restarts it.
void TerminalWatch::poll() {
  const auto guard = groups_of(parts_.guard);
  if (!guard || !guard->is_background() || guard->state == 'T' || is_orphaned(*guard)) {
    return;
  }
  const pid_t worker = parts_.worker();
  if (worker != 0 && any_waits_for(terminal_, worker)) {
    parts_.signal_job(SIGTSTP);
    ::kill(-guard->group, SIGTTIN);
    return;
  }
  poll_later();
}

}  // namespace muster
