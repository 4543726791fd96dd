// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/proc_wait.hpp"

#include "base/text.hpp"

#include <charconv>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>

namespace muster::hang {
namespace {

// Splits a line at spaces and tabs.
std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> out;
  while (!line.empty()) {
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) {
      break;
    }
    line.remove_prefix(begin);
    const auto end = std::min(line.find_first_of(" \t"), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return out;
}

// Which arguments identify the object that a call waits for, such as a descriptor or a path.
enum class Names { nothing, fd, path, path_after_fd, polled, fd_set, fcntl };

struct Row {
  long number;
  WaitKind kind;
  std::string_view name;
  Names names;
};

// System calls in which a program may block. Calls that exist only on x86-64 are inside #ifdef.
// epoll_wait has Names::nothing, because it waits for any member of a set.
constexpr Row kRows[] = {
    {SYS_futex, WaitKind::lock, "futex", Names::nothing},
    {SYS_read, WaitKind::read, "read", Names::fd},
    {SYS_readv, WaitKind::read, "readv", Names::fd},
    {SYS_pread64, WaitKind::read, "pread", Names::fd},
    {SYS_write, WaitKind::write, "write", Names::fd},
    {SYS_writev, WaitKind::write, "writev", Names::fd},
    {SYS_pwrite64, WaitKind::write, "pwrite", Names::fd},
    {SYS_sendfile, WaitKind::write, "sendfile", Names::fd},
    {SYS_openat, WaitKind::open, "open", Names::path_after_fd},
    {SYS_newfstatat, WaitKind::open, "stat", Names::path_after_fd},
    {SYS_statx, WaitKind::open, "statx", Names::path_after_fd},
    {SYS_faccessat, WaitKind::open, "access", Names::path_after_fd},
    {SYS_unlinkat, WaitKind::open, "unlink", Names::path_after_fd},
    {SYS_mkdirat, WaitKind::open, "mkdir", Names::path_after_fd},
    {SYS_statfs, WaitKind::open, "statfs", Names::path},
    {SYS_flock, WaitKind::file_lock, "flock", Names::fd},
    {SYS_fcntl, WaitKind::other, "fcntl", Names::fcntl},
    {SYS_fsync, WaitKind::sync, "fsync", Names::fd},
    {SYS_fdatasync, WaitKind::sync, "fdatasync", Names::fd},
    {SYS_ftruncate, WaitKind::sync, "ftruncate", Names::fd},
    {SYS_getdents64, WaitKind::read, "getdents", Names::fd},
    {SYS_ppoll, WaitKind::poll, "ppoll", Names::polled},
    {SYS_pselect6, WaitKind::poll, "select", Names::fd_set},
    {SYS_epoll_pwait, WaitKind::poll, "epoll_wait", Names::nothing},
    {SYS_recvfrom, WaitKind::socket, "recv", Names::fd},
    {SYS_recvmsg, WaitKind::socket, "recvmsg", Names::fd},
    {SYS_sendto, WaitKind::socket, "send", Names::fd},
    {SYS_sendmsg, WaitKind::socket, "sendmsg", Names::fd},
    {SYS_accept, WaitKind::socket, "accept", Names::fd},
    {SYS_accept4, WaitKind::socket, "accept", Names::fd},
    {SYS_connect, WaitKind::socket, "connect", Names::fd},
    {SYS_wait4, WaitKind::child, "wait4", Names::nothing},
    {SYS_waitid, WaitKind::child, "waitid", Names::nothing},
    {SYS_nanosleep, WaitKind::sleep, "nanosleep", Names::nothing},
    {SYS_clock_nanosleep, WaitKind::sleep, "clock_nanosleep", Names::nothing},
    {SYS_rt_sigsuspend, WaitKind::signal, "sigsuspend", Names::nothing},
    {SYS_rt_sigtimedwait, WaitKind::signal, "sigtimedwait", Names::nothing},
#ifdef SYS_poll
    {SYS_poll, WaitKind::poll, "poll", Names::polled},
    {SYS_select, WaitKind::poll, "select", Names::fd_set},
    {SYS_epoll_wait, WaitKind::poll, "epoll_wait", Names::nothing},
    {SYS_open, WaitKind::open, "open", Names::path},
    {SYS_stat, WaitKind::open, "stat", Names::path},
    {SYS_lstat, WaitKind::open, "lstat", Names::path},
    {SYS_access, WaitKind::open, "access", Names::path},
    {SYS_unlink, WaitKind::open, "unlink", Names::path},
    {SYS_mkdir, WaitKind::open, "mkdir", Names::path},
    {SYS_pause, WaitKind::signal, "pause", Names::nothing},
#endif
};

// The kernel uses only the lower half of the register for an int. The upper half may contain any
// value.
int descriptor(std::uint64_t argument) {
  return static_cast<int>(static_cast<std::uint32_t>(argument));
}

CallFacts with_arguments(const Row& row, const SystemCall& call) {
  CallFacts out{.kind = row.kind, .name = row.name};
  switch (row.names) {
    case Names::nothing:
      break;
    case Names::fd:
      out.fd = descriptor(call.arguments[0]);
      break;
    case Names::path:
      out.path_at = call.arguments[0];
      break;
    case Names::path_after_fd:
      out.path_at = call.arguments[1];
      break;
    case Names::polled:
      // Programs use poll() and select() without descriptors to sleep.
      out.polled_at = call.arguments[1] > 0 ? call.arguments[0] : 0;
      out.kind = call.arguments[1] > 0 ? row.kind : WaitKind::sleep;
      break;
    case Names::fd_set:
      out.fd_set_at = call.arguments[0] > 0 ? call.arguments[1] : 0;
      out.kind = call.arguments[0] > 0 ? row.kind : WaitKind::sleep;
      break;
    case Names::fcntl: {
      // Only these two commands wait for a lock. F_SETLK and F_OFD_SETLK fail at once instead.
      const std::uint64_t command = call.arguments[1];
      out.fd = descriptor(call.arguments[0]);
      out.kind = command == F_SETLKW || command == F_OFD_SETLKW ? WaitKind::file_lock : row.kind;
      break;
    }
  }
  return out;
}

}  // namespace

std::optional<SystemCall> parse_system_call(std::string_view line) {
  const auto words = words_of(trim(line));
  SystemCall out;
  // If the thread is in a system call, the line contains the call's number, six arguments, and the
  // stack and instruction pointers. Otherwise it is "running", or "-1" and the two pointers
  // (proc(5)).
  if (words.size() < 7) {
    return std::nullopt;
  }
  const auto number = parse_int(words[0]);
  if (!number || *number < 0) {
    return std::nullopt;
  }
  out.number = static_cast<long>(*number);
  for (std::size_t i = 0; i < out.arguments.size(); ++i) {
    std::string_view word = words[i + 1];
    word.remove_prefix(word.starts_with("0x") ? 2 : 0);
    const auto [end, error] =
        std::from_chars(word.data(), word.data() + word.size(), out.arguments[i], 16);
    if (error != std::errc{} || end != word.data() + word.size()) {
      return std::nullopt;
    }
  }
  return out;
}

CallFacts facts_of(const SystemCall& call) {
  for (const Row& row : kRows) {
    if (row.number == call.number) {
      return with_arguments(row, call);
    }
  }
  return {};
}

// A line such as "1: FLOCK  ADVISORY  WRITE 27582 fe:00:12345 0 EOF" is a held lock. A line such as
// "1: -> FLOCK …" is a process that waits for it. Waiters are listed after the lock that blocks
// them. An open file description lock has no owner, so its pid is -1.
pid_t lock_holder(std::string_view locks, pid_t pid) {
  std::int64_t holder = 0;
  for (const std::string& line : split(locks, '\n')) {
    const auto words = words_of(line);
    const bool waits = words.size() > 5 && words[1] == "->";
    if (waits && parse_int(words[5]) == pid) {
      return holder > 0 && holder <= INT32_MAX ? static_cast<pid_t>(holder) : 0;
    }
    if (!waits && words.size() > 4) {
      holder = parse_int(words[4]).value_or(0);
    }
  }
  return 0;
}

}  // namespace muster::hang
