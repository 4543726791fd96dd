// SPDX-License-Identifier: Apache-2.0
#include "hang/gather/proc_evidence.hpp"

#include "base/fd.hpp"
#include "base/text.hpp"
#include "hang/gather/proc_wait.hpp"
#include "hang/gather/stack_dumps.hpp"
#include "process/tree/descendants.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <unistd.h>

namespace muster::hang {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{256} * 1024;
constexpr std::size_t kPathBytesMax = 512;
constexpr std::size_t kDescriptorsMax = 512;  // limit per process

std::string read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> piece{};
  while (fd && text.size() < kFileBytesMax) {
    const auto count = ::read(fd.get(), piece.data(), piece.size());
    if (count <= 0) {
      break;
    }
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
  return text;
}

std::string link_target(const std::string& path) {
  std::array<char, 4096> target{};
  const auto size = ::readlink(path.c_str(), target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : "";
}

// The number after "name:" in a file that has one such line per value.
std::uint64_t number_after(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos || (at > 0 && text[at - 1] != '\n')) {
    return 0;
  }
  const auto begin = at + name.size();
  const auto end = std::min(text.find('\n', begin), text.size());
  const auto number = parse_int(text.substr(begin, end - begin));
  return number && *number > 0 ? static_cast<std::uint64_t>(*number) : 0;
}

// User and system time from a stat line: fields 14 and 15. The command in parentheses is skipped.
double cpu_seconds(std::string_view stat) {
  static const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto close = stat.rfind(')');
  if (close == std::string_view::npos) {
    return 0;
  }
  const auto fields = split(trim(stat.substr(close + 1)), ' ');
  if (fields.size() < 13) {
    return 0;
  }
  const auto used = parse_int(fields[11]).value_or(0) + parse_int(fields[12]).value_or(0);
  return static_cast<double>(used) / ticks;
}

// The time for which the main thread was runnable but waited for a CPU. On an overloaded host, a
// process that computes gets little CPU time and would otherwise seem idle.
double waited_seconds(std::string_view schedstat) {
  constexpr double kNsInSecond = 1e9;
  const auto fields = split(trim(schedstat), ' ');
  return fields.size() < 2 ? 0
                           : static_cast<double>(parse_int(fields[1]).value_or(0)) / kNsInSecond;
}

// Reads bytes at an address in another process. Returns only the readable part. Unlike ptrace(2),
// this does not stop the process.
std::string read_memory(pid_t pid, std::uint64_t address, std::size_t bytes) {
  std::string out(bytes, '\0');
  const iovec here{out.data(), out.size()};
  const iovec there{reinterpret_cast<void*>(address), bytes};
  const auto count = ::process_vm_readv(pid, &here, 1, &there, 1, 0);
  out.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return out;
}

// Reads a path, which may end just before an unreadable page. It reads page by page, because
// process_vm_readv(2) may refuse a range that is only partly readable.
std::string read_path(pid_t pid, std::uint64_t address) {
  const std::size_t page = 4096;
  const std::size_t left = page - address % page;
  std::string text = read_memory(pid, address, std::min(kPathBytesMax, left));
  if (text.size() == left && text.find('\0') == std::string::npos) {
    text += read_memory(pid, address + left, kPathBytesMax - std::min(kPathBytesMax, left));
  }
  return text.substr(0, text.find('\0'));
}

// Returns only the first of the polled descriptors, because a Wait holds only one.
int first_polled(pid_t pid, std::uint64_t address) {
  const std::string bytes = read_memory(pid, address, sizeof(pollfd));
  pollfd first{};
  if (bytes.size() != sizeof(first)) {
    return -1;
  }
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(&first));
  return first.fd;
}

int first_in_set(pid_t pid, std::uint64_t address) {
  const std::string bytes = read_memory(pid, address, sizeof(fd_set));
  for (std::size_t i = 0; i < bytes.size() * 8; ++i) {
    // Descriptor n is bit n of the set. On a little-endian CPU that is bit n % 8 of byte n / 8.
    const unsigned byte = static_cast<unsigned char>(bytes[i / 8]);
    if ((byte >> (i % 8) & 1U) != 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

Wait read_wait(pid_t pid, pid_t tid) {
  const auto call = parse_system_call(read_file(fmt::format("/proc/{}/task/{}/syscall", pid, tid)));
  // The thread is running, or we cannot read the file, which requires permission to trace the
  // process (proc(5)).
  if (!call) {
    return {};
  }
  const CallFacts facts = facts_of(*call);
  Wait out{.kind = facts.kind, .call = std::string(facts.name), .path = {}, .fd = facts.fd};
  if (facts.polled_at != 0) {
    out.fd = first_polled(pid, facts.polled_at);
  } else if (facts.fd_set_at != 0) {
    out.fd = first_in_set(pid, facts.fd_set_at);
  }
  if (facts.path_at != 0) {
    out.path = read_path(pid, facts.path_at);
  } else if (out.fd >= 0) {
    out.path = link_target(fmt::format("/proc/{}/fd/{}", pid, out.fd));
  }
  if (facts.kind == WaitKind::file_lock) {
    out.holder = lock_holder(read_file("/proc/locks"), pid);
  }
  return out;
}

std::vector<pid_t> threads_of(pid_t pid) {
  std::vector<pid_t> out;
  std::error_code error;
  for (std::filesystem::directory_iterator at(fmt::format("/proc/{}/task", pid), error), end;
       !error && at != end && out.size() < kThreadsMax;
       at.increment(error)) {
    if (const auto number = parse_int(at->path().filename().string())) {
      out.push_back(static_cast<pid_t>(*number));
    }
  }
  // The main thread, whose tid is the pid, comes first. Callers use threads.front() as the main
  // thread.
  std::ranges::sort(out, {}, [&](pid_t tid) { return std::pair(tid != pid, tid); });
  return out;
}

std::string first_line(const std::string& path) {
  const std::string text = read_file(path);
  return text.substr(0, text.find('\n'));
}

ThreadFacts read_thread(pid_t pid, pid_t tid) {
  const std::string folder = fmt::format("/proc/{}/task/{}/", pid, tid);
  ThreadFacts out;
  out.tid = tid;
  out.name = first_line(folder + "comm");
  if (const auto row = parse_stat(read_file(folder + "stat"))) {
    out.state = row->state;
  }
  // The kernel writes "0" if the thread is running or if we may not trace the process.
  const std::string function = read_file(folder + "wchan");
  out.kernel_function = function == "0" ? "" : function;
  out.wait = read_wait(pid, tid);
  return out;
}

std::optional<ProcessFacts> read_facts(pid_t pid) {
  const auto row = read_process(pid);
  if (!row || row->state == 'Z') {
    return std::nullopt;
  }
  ProcessFacts out;
  out.pid = pid;
  out.parent = row->parent;
  out.command = row->command;
  out.state = row->state;
  out.tracer = static_cast<pid_t>(
      number_after(read_file(fmt::format("/proc/{}/status", pid)), "TracerPid:"));
  for (const pid_t tid : threads_of(pid)) {
    out.threads.push_back(read_thread(pid, tid));
  }
  return out;
}

// Lists the process tree breadth-first.
std::vector<pid_t> tree_of(pid_t root) {
  std::vector<pid_t> out{root};
  for (std::size_t i = 0; i < out.size() && out.size() < kProcessesMax; ++i) {
    for (const pid_t child : children_of(out[i])) {
      out.push_back(child);
    }
  }
  out.resize(std::min(out.size(), kProcessesMax));
  return out;
}

// The O_ACCMODE bits of another process's descriptor.
std::optional<int> access_mode(pid_t pid, const std::string& fd) {
  const std::string info = read_file(fmt::format("/proc/{}/fdinfo/{}", pid, fd));
  const auto at = info.find("flags:");
  if (at == std::string::npos) {
    return std::nullopt;
  }
  // The kernel writes the flags in octal.
  const auto digits = info.find_first_of("01234567", at);
  const char* const begin = digits == std::string::npos ? nullptr : info.data() + digits;
  int flags = 0;
  if (begin == nullptr ||
      std::from_chars(begin, info.data() + info.size(), flags, 8).ec != std::errc{}) {
    return std::nullopt;
  }
  return flags & O_ACCMODE;
}

// The processes that have a pipe open for reading, and those that have it open for writing.
struct PipeEnds {
  std::vector<pid_t> readers;
  std::vector<pid_t> writers;
};

// Adds ends only to pipes that are already in `pipes`.
void add_ends(pid_t pid, std::map<std::string, PipeEnds>& pipes) {
  std::size_t seen = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(fmt::format("/proc/{}/fd", pid), error), end;
       !error && at != end && seen < kDescriptorsMax;
       at.increment(error)) {
    ++seen;
    const auto pipe = pipes.find(link_target(at->path().string()));
    const auto mode =
        pipe == pipes.end() ? std::nullopt : access_mode(pid, at->path().filename().string());
    // A descriptor that is open for both reading and writing counts as both ends.
    if (mode && *mode != O_WRONLY) {
      pipe->second.readers.push_back(pid);
    }
    if (mode && *mode != O_RDONLY) {
      pipe->second.writers.push_back(pid);
    }
  }
}

}  // namespace

Used used_by(pid_t root) {
  Used out;
  if (!proc_is_ours()) {
    return out;  // /proc shows the pids of another namespace
  }
  for (const pid_t pid : tree_of(root)) {
    out.cpu_seconds += cpu_seconds(read_file(fmt::format("/proc/{}/stat", pid)));
    out.cpu_seconds += waited_seconds(read_file(fmt::format("/proc/{}/schedstat", pid)));
    // rchar and wchar include pipes and cached files. read_bytes and write_bytes count only what
    // reaches the storage device, so a program that reads from the cache would seem idle.
    const std::string io = read_file(fmt::format("/proc/{}/io", pid));
    out.io_bytes += number_after(io, "rchar:") + number_after(io, "wchar:");
  }
  return out;
}

std::vector<ProcessFacts> read_processes(pid_t root) {
  std::vector<ProcessFacts> out;
  for (const pid_t pid : tree_of(root)) {
    if (auto facts = read_facts(pid)) {
      out.push_back(std::move(*facts));
    }
  }
  return out;
}

std::map<pid_t, ThreadUse> thread_use(const std::vector<ProcessFacts>& processes) {
  std::map<pid_t, ThreadUse> out;
  for (const ProcessFacts& process : processes) {
    for (const ThreadFacts& thread : process.threads) {
      const std::string stat =
          read_file(fmt::format("/proc/{}/task/{}/stat", process.pid, thread.tid));
      const auto row = parse_stat(stat);
      out[thread.tid] = {cpu_seconds(stat), row ? row->state : '?'};
    }
  }
  return out;
}

void add_cpu(std::vector<RankEvidence>& ranks,
             const std::map<pid_t, ThreadUse>& before,
             double seconds) {
  for (RankEvidence& rank : ranks) {
    const auto now = thread_use(rank.processes);
    for (ProcessFacts& process : rank.processes) {
      for (ThreadFacts& thread : process.threads) {
        const auto then = before.find(thread.tid);
        const auto after = now.find(thread.tid);
        // A thread that exited before the second sample keeps a usage of 0.
        if (then != before.end() && after != now.end()) {
          thread.cpu = std::max(0.0, after->second.cpu - then->second.cpu) / seconds;
          // On an overloaded host a runnable thread may get no CPU time between the samples.
          thread.runs = then->second.state == 'R' && after->second.state == 'R';
        }
      }
    }
  }
}

void find_other_sides(std::vector<RankEvidence>& ranks) {
  // First collect the pipes on which threads wait, then find the processes at their ends, and then
  // set the holders. Only processes of the ranks are searched, so a process outside the job is not
  // found.
  std::map<std::string, PipeEnds> pipes;
  const auto each_waiting = [&](const auto& action) {
    for (RankEvidence& rank : ranks) {
      for (ProcessFacts& process : rank.processes) {
        for (ThreadFacts& thread : process.threads) {
          if (thread.wait.path.starts_with("pipe:") && thread.wait.holder == 0) {
            action(process, thread.wait);
          }
        }
      }
    }
  };
  each_waiting([&](const ProcessFacts&, const Wait& wait) { pipes[wait.path]; });
  for (const RankEvidence& rank : ranks) {
    for (const ProcessFacts& process : rank.processes) {
      if (!pipes.empty()) {
        add_ends(process.pid, pipes);
      }
    }
  }
  each_waiting([&](const ProcessFacts& process, Wait& wait) {
    const PipeEnds& ends = pipes[wait.path];
    const auto& others = wait.kind == WaitKind::write ? ends.readers : ends.writers;
    // The process may have both ends of the pipe open, but it is not waiting for itself.
    const auto other = std::ranges::find_if(others, [&](pid_t pid) { return pid != process.pid; });
    wait.holder = other == others.end() ? 0 : *other;
  });
}

}  // namespace muster::hang
