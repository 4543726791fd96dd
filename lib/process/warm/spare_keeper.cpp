// SPDX-License-Identifier: Apache-2.0
#include "process/warm/spare_keeper.hpp"

#include "base/printable.hpp"
#include "process/warm/worker_message.hpp"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/socket.h>

namespace muster {
namespace {

constexpr std::string_view kReady = "ready";
constexpr std::string_view kStart = "start";
constexpr std::size_t kReasonBytesMax = 200;

// ": KeyError: 'RANK'"
std::string reason_in(std::string_view tail) {
  while (tail.ends_with('\n')) {
    tail.remove_suffix(1);
  }
  const auto line = tail.substr(tail.rfind('\n') + 1);
  return line.empty() ? "" : ": " + printable_in_line(line, kReasonBytesMax);
}

}  // namespace

// A spare worker and the connection to it, which is the process's standard input.
struct SpareKeeper::Spare final : Watcher {
  Spare(SpareKeeper& owner, ProcessSpec process) : keeper(owner), spec(std::move(process)) {}

  void on_ready() override { keeper.read(pid); }

  SpareKeeper& keeper;
  ProcessSpec spec;
  UniqueFd control;
  pid_t pid = 0;
};

SpareKeeper::SpareKeeper(asio::io_context& io, Poller& poller, Sweeper& sweeper, Runner runner)
    : poller_(poller), sweeper_(sweeper), runner_(std::move(runner)), timer_(io) {}

SpareKeeper::~SpareKeeper() {
  for (const auto& [pid, spare] : spares_) {
    poller_.forget(spare->control.get());
    ::kill(pid, SIGKILL);
  }
}

void SpareKeeper::keep(SpareWorkers wanted) {
  wanted_ = std::move(wanted);
  pool_.keep(wanted_.count);
  fill_later();
}

void SpareKeeper::fill_later() {
  if (pool_.missing() <= 0) {
    return;
  }
  timer_.expires_after(kSpareDelay);
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) {
      fill();
    }
  });
}

void SpareKeeper::fill() {
  while (pool_.missing() > 0) {
    if (const auto started = start_one(); !started) {
      pool_.give_up();
      wanted_.say(LogLevel::warning,
                  "--spare-workers: no spare workers: " + started.error().message);
    }
  }
}

Result<void> SpareKeeper::start_one() {
  auto spec = wanted_.spec(pool_.next_number());
  MUSTER_RETURN_IF_ERROR(spec);
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return std::unexpected(system_error("cannot create a socket for a spare worker", errno));
  }
  auto spare = std::make_unique<Spare>(*this, std::move(*spec));
  spare->control = UniqueFd(ends[0]);
  const UniqueFd theirs(ends[1]);
  const auto pid = runner_.start(spare->spec, theirs.get());
  MUSTER_RETURN_IF_ERROR(pid);
  spare->pid = *pid;
  sweeper_.spare(*pid);
  pool_.add(*pid);
  Spare& added = *spares_.insert_or_assign(*pid, std::move(spare)).first->second;
  return poller_.watch_input(added.control.get(), added);
}

void SpareKeeper::read(pid_t pid) {
  const Spare& spare = *spares_.at(pid);
  std::array<char, kReady.size()> text{};
  const auto count = ::recv(spare.control.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (count <= 0) {
    poller_.forget(spare.control.get());  // it is exiting, or has closed its standard input
  } else if (std::string_view(text.data(), static_cast<std::size_t>(count)) == kReady) {
    pool_.note_ready(pid);
    wanted_.say(LogLevel::info, fmt::format("spare worker (pid {}) is ready", pid));
  }
}

std::unique_ptr<SpareKeeper::Spare> SpareKeeper::remove(pid_t pid) {
  auto spare = std::move(spares_.extract(pid).mapped());
  poller_.forget(spare->control.get());
  return spare;
}

// A spare worker that cannot be used is exiting, or is killed.
std::optional<pid_t> SpareKeeper::take(const ProcessSpec& spec, const ChildStreams& streams) {
  while (const auto pid = pool_.take()) {
    const auto spare = remove(*pid);
    sweeper_.end_sparing(*pid);
    const auto text = text_file(encode_change(spare->spec, spec));
    if (text && send_files(spare->control.get(), kStart, files_of(*text, streams))) {
      wanted_.say(LogLevel::info,
                  fmt::format("rank {} continues in spare worker (pid {})", spec.rank, *pid));
      return pid;
    }
    ::kill(-*pid, SIGKILL);
  }
  return std::nullopt;
}

bool SpareKeeper::note_reaped(pid_t pid, const ExitStatus& status) {
  const SparePool::Exit exit = pool_.note_exit(pid);
  if (exit == SparePool::Exit::unknown) {
    return false;
  }
  const auto spare = remove(pid);
  const std::string why = fmt::format("the spare worker with pid {} {}{}",
                                      pid,
                                      status.describe(),
                                      reason_in(runner_.end_streams(spare->spec.local_rank)));
  if (exit == SparePool::Exit::replace) {
    wanted_.say(LogLevel::info, why + "; starting another");
    fill_later();
  } else if (exit == SparePool::Exit::give_up) {
    wanted_.say(LogLevel::warning,
                fmt::format("--spare-workers: no more spare workers, because {} have exited: {}. "
                            "Before muster.elastic.run, a program must not use its rank or "
                            "communicate",
                            kSpareExitsMax,
                            why));
  }
  return true;
}

void SpareKeeper::signal(int signo) const {
  for (const auto& [pid, spare] : spares_) {
    ::kill(-pid, signo);
  }
}

void SpareKeeper::stop() {
  timer_.cancel();
  for (const pid_t pid : pool_.stop()) {
    sweeper_.end_sparing(pid);
    ::kill(pid, SIGKILL);
  }
}

}  // namespace muster
