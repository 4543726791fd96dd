// SPDX-License-Identifier: Apache-2.0
#include "process/deaths/descendant_watch.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "process/deaths/death_watch.hpp"
#include "process/values/memory.hpp"
#include "process/values/proc_file.hpp"

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr Duration kLook = std::chrono::milliseconds(50);

// The delay before the next scan is this multiple of the last scan's CPU time. Scans thus use at
// most 1% of one CPU, however many threads the program has.
constexpr int kLookShare = 100;

constexpr std::size_t kMemberStatBytesMax = 4096;
constexpr std::size_t kEnvironmentBytesMax = std::size_t{256} * 1024;

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0U)));
}

// Mirrors struct pidfd_info from <linux/pidfd.h> in Linux 6.15, up to PIDFD_INFO_SIZE_VER0.
struct PidfdInfo {
  std::uint64_t mask = 0;
  std::uint64_t cgroup = 0;
  std::array<std::uint32_t, 11> ids{};
  std::int32_t exit_code = 0;
};

static_assert(sizeof(PidfdInfo) == 64);

constexpr std::uint64_t kPidfdInfoExit = 1U << 3U;
constexpr unsigned long kPidfdGetInfo = _IOWR(0xFF, 11, PidfdInfo);

// The status of a process that its parent has reaped; none on older kernels.
std::optional<ExitStatus> status_after_reaping(int pidfd) {
  PidfdInfo info;
  info.mask = kPidfdInfoExit;
  if (::ioctl(pidfd, kPidfdGetInfo, &info) != 0 || (info.mask & kPidfdInfoExit) == 0) {
    return std::nullopt;
  }
  const int status = info.exit_code;
  return WIFSIGNALED(status) ? ExitStatus{true, WTERMSIG(status), WCOREDUMP(status) != 0}
                             : ExitStatus{false, WEXITSTATUS(status)};
}

std::size_t most_watched() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0
             ? std::min<std::size_t>(kDescendantsMax, limit.rlim_cur / 4)
             : kDescendantsMax;
}

bool has_ended(int pidfd) {
  pollfd end{.fd = pidfd, .events = POLLIN, .revents = 0};
  return ::poll(&end, 1, 0) > 0;
}

std::string stat_of(pid_t pid) {
  return read_proc_file("/proc/" + std::to_string(pid) + "/stat", kMemberStatBytesMax);
}

// Checks one of our children without reaping it. If a whole process group was killed, this function
// reports each member of the group as dying, even before the member has exited.
bool is_ending(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid != 0 || parse_dying(stat_of(pid));
}

}  // namespace

std::optional<int> rank_in_environment(std::string_view block) {
  constexpr std::string_view kName = "RANK=";
  while (!block.empty()) {
    const std::string_view variable = block.substr(0, block.find('\0'));
    if (variable.starts_with(kName)) {
      int rank = 0;
      const char* const end = variable.data() + variable.size();
      const auto [stop, error] = std::from_chars(variable.data() + kName.size(), end, rank);
      return error == std::errc{} && stop == end ? std::optional(rank) : std::nullopt;
    }
    block.remove_prefix(std::min(block.size(), variable.size() + 1));
  }
  return std::nullopt;
}

struct DescendantWatch::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, DescendantObserver& who)
      : loop(io), timer(io), observer(who), core(::getpid(), most_watched()) {}

  asio::io_context& loop;
  asio::steady_timer timer;
  DescendantObserver& observer;
  DescendantCore core;
  std::map<int, int> local_ranks;  // by rank
  std::map<pid_t, std::unique_ptr<asio::posix::stream_descriptor>> watched;
  UniqueFd newest{::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)};
  std::string newest_seen;
  TimePoint next_look{};
  bool looking = false;
  std::string memory_group = own_memory_group();
  std::optional<std::uint64_t> kills_before;
  std::vector<DescendantEnd> failures;  // not yet reported
  bool tell_posted = false;
  bool told_too_many = false;

  void begin();
  void end();
  void wait();
  void look();
  bool anybody_new();
  std::optional<int> owner_of_orphan(const ProcessRow& row) const;
  void take(TimePoint now, std::span<const ProcessRow> rows);
  void take_dead_orphans();
  void watch(pid_t pid);
  void note_end(pid_t pid);
  void ask_about_memory(DescendantEnd& end) const;
  void tell();
};

void DescendantWatch::Impl::begin() {
  if (!std::exchange(looking, true)) {
    kills_before = read_memory_kills(memory_group);
    next_look = steady_now();
    newest_seen.clear();
    wait();
  }
}

void DescendantWatch::Impl::end() {
  looking = false;
  timer.cancel();
  core = DescendantCore(::getpid(), most_watched());
  local_ranks.clear();
  watched.clear();
  failures.clear();
}

void DescendantWatch::Impl::wait() {
  timer.expires_after(kLook);
  timer.async_wait([weak = weak_from_this()](const std::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && self->looking) {
      if (steady_now() >= self->next_look && self->anybody_new()) {
        self->look();
      }
      self->wait();
    }
  });
}

// The last field is the most recently allocated pid or thread ID in our pid namespace. If it is
// unchanged, no process was created.
bool DescendantWatch::Impl::anybody_new() {
  std::array<char, 128> text{};
  const auto count = newest ? ::pread(newest.get(), text.data(), text.size(), 0) : -1;
  const std::string_view line(text.data(), static_cast<std::size_t>(std::max<long>(0, count)));
  const std::string_view number = line.substr(line.rfind(' ') + 1);
  if (!line.empty() && number == newest_seen) {
    return false;
  }
  newest_seen = number;
  return true;
}

void DescendantWatch::Impl::look() {
  const Duration before = thread_cpu_time();
  take(steady_now(), descendants());
  next_look = steady_now() + (thread_cpu_time() - before) * kLookShare;
}

void DescendantWatch::Impl::take(TimePoint now, std::span<const ProcessRow> rows) {
  const auto added =
      core.note_seen(now, rows, [this](const ProcessRow& row) { return owner_of_orphan(row); });
  for (const pid_t pid : added) {
    watch(pid);
  }
  if (core.was_full() && !std::exchange(told_too_many, true)) {
    observer.on_too_many_descendants();
  }
}

// Handles processes that were created and died since the last scan and whose parent is dead too.
// Zombies whose parent is still running are found by the next scan.
void DescendantWatch::Impl::take_dead_orphans() {
  std::vector<ProcessRow> rows;
  for (const pid_t pid : children_of(::getpid())) {
    auto row = core.knows(pid) ? std::nullopt : read_process(pid);
    if (row && row->state == 'Z') {
      rows.push_back(std::move(*row));
    }
  }
  take(steady_now(), rows);
}

// Excludes our own helper processes, whose environment does not contain a worker's RANK. The
// environment of a dead process is gone, so its process group is checked instead: a helper leads
// its own group, but an orphaned daemon does not.
std::optional<int> DescendantWatch::Impl::owner_of_orphan(const ProcessRow& row) const {
  if (row.state == 'Z') {
    return row.pid == row.group ? std::nullopt : core.owner_of_dead(row.group);
  }
  const auto rank = rank_in_environment(
      read_proc_file("/proc/" + std::to_string(row.pid) + "/environ", kEnvironmentBytesMax));
  const auto found = rank ? local_ranks.find(*rank) : local_ranks.end();
  return found == local_ranks.end() ? std::nullopt : std::optional(found->second);
}

void DescendantWatch::Impl::watch(pid_t pid) {
  UniqueFd pidfd = open_pidfd(pid);
  if (!pidfd) {
    static_cast<void>(core.note_end(steady_now(), pid, std::nullopt));
    return;
  }
  auto one = std::make_unique<asio::posix::stream_descriptor>(loop);
  std::error_code error;
  one->assign(pidfd.get(), error);
  if (error) {
    static_cast<void>(core.note_end(steady_now(), pid, std::nullopt));
    return;
  }
  static_cast<void>(pidfd.release());
  one->async_wait(asio::posix::stream_descriptor::wait_read,
                  [weak = weak_from_this(), pid](const std::error_code& broken) {
                    if (const auto self = weak.lock(); self && !broken) {
                      self->note_end(pid);
                    }
                  });
  watched[pid] = std::move(one);
}

// The /proc entry exists until the process is reaped; the pidfd provides the status only
// afterwards.
void DescendantWatch::Impl::note_end(pid_t pid) {
  const auto found = watched.find(pid);
  if (found == watched.end()) {
    return;
  }
  const std::string stat = stat_of(pid);
  const auto row = parse_stat(stat);
  const bool still_there = row && row->state == 'Z';
  const auto status =
      still_there ? parse_dying(stat) : status_after_reaping(found->second->native_handle());
  watched.erase(found);
  auto end = core.note_end(steady_now(), pid, status);
  if (!end) {
    return;
  }
  if (still_there) {
    end->command = row->command;  // the process may have renamed itself since the last scan
  }
  ask_about_memory(*end);
  failures.push_back(std::move(*end));
  if (!std::exchange(tell_posted, true)) {
    asio::post(loop, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        self->tell();
      }
    });
  }
}

void DescendantWatch::Impl::ask_about_memory(DescendantEnd& end) const {
  if (!end.status.signaled || end.status.value != SIGKILL) {
    return;
  }
  const auto now = read_memory_facts(memory_group);
  if (now.kills && kills_before && *now.kills > *kills_before) {
    end.out_of_memory = true;
    end.memory_usage = now.describe();
  }
}

// If the worker is exiting too, only the worker's exit is reported, because its children may have
// died as a result of it.
void DescendantWatch::Impl::tell() {
  tell_posted = false;
  for (const DescendantEnd& one : std::exchange(failures, {})) {
    const pid_t worker = core.worker(one.local_rank);
    if (worker != 0 && !is_ending(worker)) {
      observer.on_descendant_failure(one);
    }
  }
}

DescendantWatch::DescendantWatch(asio::io_context& loop, DescendantObserver& observer)
    : impl_(std::make_shared<Impl>(loop, observer)) {}

DescendantWatch::~DescendantWatch() = default;

bool DescendantWatch::is_possible() {
  return proc_is_ours() && open_pidfd(::getpid());
}

void DescendantWatch::add_worker(pid_t pid, int local_rank, int rank) {
  impl_->core.add_worker(pid, local_rank);
  impl_->local_ranks[rank] = local_rank;
  impl_->begin();
}

void DescendantWatch::drop_worker(int local_rank) {
  impl_->core.drop_worker(local_rank);
  std::erase_if(impl_->watched, [&](const auto& one) { return !impl_->core.knows(one.first); });
}

std::size_t DescendantWatch::count() const {
  return impl_->watched.size();
}

void DescendantWatch::end() {
  impl_->end();
}

void DescendantWatch::look_before_reaping() {
  if (!impl_->looking) {
    return;
  }
  impl_->take_dead_orphans();
  std::vector<pid_t> ended;
  for (const auto& [pid, pidfd] : impl_->watched) {
    if (has_ended(pidfd->native_handle())) {
      ended.push_back(pid);
    }
  }
  for (const pid_t pid : ended) {
    impl_->note_end(pid);
  }
}

}  // namespace muster
