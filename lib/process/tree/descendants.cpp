// SPDX-License-Identifier: Apache-2.0
#include "process/tree/descendants.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/fd.hpp"
#include "process/values/proc_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr std::size_t kProcFileBytesMax = 1 << 20;
// Fields 14, 15 and 24 of /proc/<pid>/stat, read from field 3 on: utime, stime and rss.
constexpr const char* kUseFormat =
    " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %lu %*s %*s %*s %*s %*s %*s %*s %*s %lu";
constexpr pid_t kPidMax = 4 * 1024 * 1024;  // the kernel's own limit

// Uses neither fmt nor iostream, because the guard also runs this code and should stay small.
std::string proc_path(pid_t pid, std::string_view file) {
  std::string path = "/proc/" + std::to_string(pid);
  return path.append("/").append(file);
}

std::string read_text(const std::string& path) {
  return read_proc_file(path, kProcFileBytesMax);
}

// The entries of a directory whose names are numbers.
std::vector<pid_t> numbers_in(const std::string& folder) {
  std::vector<pid_t> numbers;
  DIR* const dir = ::opendir(folder.c_str());
  if (dir == nullptr) {
    return numbers;
  }
  // NOLINTNEXTLINE(concurrency-mt-unsafe): only this call reads the directory
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    pid_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc{} && end == name.data() + name.size()) {
      numbers.push_back(number);
    }
  }
  ::closedir(dir);
  return numbers;
}

// The most recently allocated pid. Pids increase until they wrap around.
pid_t newest_pid() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(0);
  }
  while (pid > 0 && ::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return pid > 0 ? pid : kPidMax;
}

// Fallback without /proc: waitid() works only for our own children and, with WNOWAIT, does not
// consume their status. It is therefore called for each pid up to the newest one, which usually
// takes milliseconds. Higher pids are tried only if that finds no child.
std::vector<pid_t> own_children_by_number() {
  const pid_t newest = newest_pid();
  std::vector<pid_t> children;
  for (pid_t pid = 1; pid < kPidMax && (pid <= newest || children.empty()); ++pid) {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
      children.push_back(pid);
    }
  }
  return children;
}

bool kernel_lists_children() {
  static const bool kListed =
      ::access(proc_path(::getpid(), "task/" + std::to_string(::getpid()) + "/children").c_str(),
               R_OK) == 0;
  return kListed;
}

void append_pids(std::string_view text, std::vector<pid_t>& out) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    pid_t pid = 0;
    const auto [stop, error] = std::from_chars(at, end, pid);
    if (error != std::errc{}) {
      return;
    }
    out.push_back(pid);
    at = stop + 1;
  }
}

std::vector<ProcessRow> all_processes() {
  std::vector<ProcessRow> rows;
  for (const pid_t pid : numbers_in("/proc")) {
    if (auto row = read_process(pid)) {
      rows.push_back(std::move(*row));
    }
  }
  return rows;
}

// A listed pid may have been reused in the meantime. It is safe to use a pidfd that was opened
// before we confirmed the parent. None if the process is no longer a child of `parent`. The handle
// is empty on kernels before 5.3.
std::optional<UniqueFd> kill_one(pid_t pid, pid_t parent) {
  UniqueFd handle = open_process(pid);
  const auto row = read_process(pid);
  if (!row || row->parent != parent) {
    return std::nullopt;
  }
  send_signal(handle, pid, SIGKILL);
  return handle;
}

// Waits until all processes in `dying` have exited, or until `until`. Sleeps briefly for those that
// have no handle.
void wait_for_ends(const std::vector<UniqueFd>& dying, TimePoint until) {
  for (const UniqueFd& one : dying) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - steady_now());
    pollfd end{.fd = one.get(), .events = POLLIN, .revents = 0};
    const int most = one ? static_cast<int>(std::max<long>(0, left.count())) : 1;
    ::poll(&end, 1, most);
  }
}

}  // namespace

std::optional<ProcessRow> parse_stat(std::string_view text) {
  // "17 (a (b) c) S 1 17 …": the last ')' ends the command.
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
    return std::nullopt;
  }
  ProcessRow row;
  const char* const begin = text.data();
  std::from_chars(begin, begin + open, row.pid);
  row.command = text.substr(open + 1, close - open - 1);
  const std::string rest(text.substr(close + 1));
  if (std::sscanf(rest.c_str(), " %c %d %d", &row.state, &row.parent, &row.group) != 3) {
    return std::nullopt;
  }
  unsigned long user = 0;
  unsigned long system = 0;
  unsigned long pages = 0;
  if (std::sscanf(rest.c_str(), kUseFormat, &user, &system, &pages) == 3) {
    row.cpu_ticks = std::uint64_t{user} + system;
    row.resident_pages = pages;
  }
  return row;
}

std::vector<ProcessRow> rows_below(pid_t root, std::span<const ProcessRow> rows) {
  std::multimap<pid_t, const ProcessRow*> by_parent;
  for (const auto& row : rows) {
    by_parent.emplace(row.parent, &row);
  }
  std::vector<ProcessRow> below;
  std::set<pid_t> seen{root};  // rows are read one by one, so a reused pid could form a cycle
  std::vector<pid_t> queue{root};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    const auto [from, to] = by_parent.equal_range(queue[next]);
    for (auto at = from; at != to; ++at) {
      if (seen.insert(at->second->pid).second) {
        queue.push_back(at->second->pid);
        below.push_back(*at->second);
      }
    }
  }
  return below;
}

bool proc_is_ours() {
  static const bool kOurs = [] {
    std::array<char, 32> target{};
    const auto count = ::readlink("/proc/self", target.data(), target.size());
    return count > 0 && std::string_view(target.data(), static_cast<std::size_t>(count)) ==
                            std::to_string(::getpid());
  }();
  return kOurs;
}

std::optional<ProcessRow> read_process(pid_t pid) {
  if (!proc_is_ours()) {
    return std::nullopt;
  }
  return parse_stat(read_text(proc_path(pid, "stat")));
}

std::vector<pid_t> children_of(pid_t pid) {
  if (!proc_is_ours()) {
    return pid == ::getpid() ? own_children_by_number() : std::vector<pid_t>();
  }
  std::vector<pid_t> children;
  if (!kernel_lists_children()) {
    for (const auto& row : all_processes()) {
      if (row.parent == pid) {
        children.push_back(row.pid);
      }
    }
    return children;
  }
  // The kernel lists children by the thread that forked them, and may omit some while others exit
  // (proc(5)). Callers that kill therefore repeat this until no child remains.
  for (const pid_t thread : numbers_in(proc_path(pid, "task"))) {
    append_pids(read_text(proc_path(pid, "task/" + std::to_string(thread) + "/children")),
                children);
  }
  return children;
}

std::vector<ProcessRow> descendants(pid_t root) {
  if (!proc_is_ours()) {
    return {};
  }
  if (!kernel_lists_children()) {
    return rows_below(root, all_processes());
  }
  std::vector<ProcessRow> rows;
  std::vector<pid_t> queue{root};
  for (std::size_t next = 0; next < queue.size(); ++next) {
    for (const pid_t child : children_of(queue[next])) {
      if (auto row = read_process(child)) {
        rows.push_back(std::move(*row));
        queue.push_back(child);
      }
    }
  }
  return rows;
}

std::vector<ProcessRow> descendants() {
  return descendants(::getpid());
}

std::optional<Ancestor> nearest_ancestor(pid_t pid, const std::function<bool(pid_t)>& is_wanted) {
  constexpr int kGenerationsMax = 64;
  for (int distance = 0; pid > 1 && distance < kGenerationsMax; ++distance) {
    if (is_wanted(pid)) {
      return Ancestor{pid, distance};
    }
    const auto row = read_process(pid);
    pid = row ? row->parent : 0;
  }
  return std::nullopt;
}

UniqueFd open_process(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

void send_signal(const UniqueFd& handle, pid_t pid, int signo) {
  MUSTER_CHECK(pid > 1);
  if (handle) {
    ::syscall(SYS_pidfd_send_signal, handle.get(), signo, nullptr, 0);
  } else {
    ::kill(pid, signo);
  }
}

SignalMasks signal_masks(pid_t pid, int signo) {
  MUSTER_CHECK(signo > 0 && signo < NSIG);
  const std::string text = proc_is_ours() ? read_text(proc_path(pid, "status")) : "";
  const auto has = [&](std::string_view key) {
    const auto at = text.find(key);
    std::uint64_t mask = 0;
    if (at != std::string::npos) {
      std::from_chars(text.data() + at + key.size(), text.data() + text.size(), mask, 16);
    }
    return ((mask >> (signo - 1)) & 1) != 0;
  };
  return {.ignored = has("\nSigIgn:\t"), .blocked = has("\nSigBlk:\t")};
}

std::optional<int> rank_in_environment(pid_t pid) {
  constexpr std::string_view kKey{"\0RANK=", 6};
  const std::string text = std::string(1, '\0') + read_text(proc_path(pid, "environ"));
  const auto at = text.find(kKey);
  if (!proc_is_ours() || at == std::string::npos) {
    return std::nullopt;
  }
  const char* const begin = text.data() + at + kKey.size();
  int rank = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), rank);
  const bool whole = end == text.data() + text.size() || *end == '\0';
  return error == std::errc{} && whole && rank >= 0 ? std::optional(rank) : std::nullopt;
}

KilledBelow kill_all_below(pid_t root, Duration timeout, const std::function<bool()>& may_kill) {
  MUSTER_CHECK(root > 0);
  MUSTER_CHECK(timeout >= Duration::zero());
  const auto until = steady_now() + timeout;
  std::set<pid_t> killed;
  while (true) {
    auto rows = descendants(root);
    std::erase_if(rows, [](const ProcessRow& row) { return survivors_among({row}).empty(); });
    if (rows.empty() || steady_now() >= until) {
      return {killed.size(), survivors_among(rows)};
    }
    if (!may_kill()) {
      return {killed.size(), {}};
    }
    std::vector<UniqueFd> dying;
    for (const ProcessRow& row : rows) {
      if (auto handle = kill_one(row.pid, row.parent)) {
        killed.insert(row.pid);
        dying.push_back(std::move(*handle));
      }
    }
    wait_for_ends(dying, until);
  }
}

std::vector<Survivor> survivors_among(const std::vector<ProcessRow>& rows, pid_t reaper) {
  std::vector<Survivor> out;
  for (const auto& row : rows) {
    const bool dead = row.state == 'Z' || row.state == 'X';
    if (!dead || (reaper != 0 && row.parent == reaper)) {
      out.push_back({.pid = row.pid, .state = row.state, .command = row.command});
    }
  }
  return out;
}

bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

}  // namespace muster
