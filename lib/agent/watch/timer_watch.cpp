// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/timer_watch.hpp"

#include "base/clock.hpp"
#include "base/printable.hpp"
#include "process/tree/descendants.hpp"

#include <asio/buffer.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include <fcntl.h>

namespace muster {
namespace {

// The wall clock may be set, so the remaining time is computed again after this time.
constexpr double kAlarmSecondsMax = 10;
constexpr std::size_t kScopeMax = 200;  // bytes of a timer's name in messages

std::string describe_timer(const FileTimer& timer) {
  // The request arrived a moment after the worker had set the timer.
  using Tenths = std::chrono::duration<std::int64_t, std::deci>;
  const auto time =
      std::chrono::ceil<Tenths>(std::chrono::duration<double>(timer.expires - timer.asked));
  return fmt::format("timer '{}' expired after {}",
                     printable(timer.scope, kScopeMax),
                     describe(Duration(std::max(time, Tenths(0)))));
}

}  // namespace

void TimerWatch::take(const JobEvent& event) {
  if (std::holds_alternative<event::RoundBegun>(event.what)) {
    begin_round();
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event.what)) {
    workers_[started->pid] = {started->local_rank, started->rank};
    expired_.erase(started->local_rank);
  } else if (const auto* ended = std::get_if<event::WorkerEnded>(&event.what)) {
    workers_.erase(ended->exit.pid);
    timers_.forget(ended->exit.pid);
    set_alarm();
  } else if (const auto* sent = std::get_if<event::WorkersSignalled>(&event.what)) {
    if (sent->signo != SIGSTOP && sent->signo != SIGCONT) {
      workers_.clear();  // the workers are being stopped
    }
  } else if (std::holds_alternative<event::WorkersKilled>(event.what)) {
    workers_.clear();
  }
}

// Also opens the pipe for writing. Otherwise reading would end when no worker has it open.
void TimerWatch::begin_round() {
  workers_.clear();
  expired_.clear();
  timers_.clear();
  alarm_.cancel();
  std::error_code ignored;
  pipe_.close(ignored);
  const std::string& path = folder_.timer_file();
  if (path.empty()) {
    return;
  }
  const int fd = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    events_.say(LogLevel::warning,
                fmt::format("cannot open the timer file {}: {}; timers have no effect",
                            path,
                            std::strerror(errno)));
    return;
  }
  pipe_.assign(fd);
  read();
}

void TimerWatch::read() {
  pipe_.async_read_some(asio::buffer(buffer_), [this](std::error_code error, std::size_t count) {
    if (error == asio::error::operation_aborted) {
      return;
    }
    take_bytes({buffer_.data(), count});
    if (!error) {
      read();
    }
  });
}

void TimerWatch::take_bytes(std::string_view bytes) {
  const std::size_t dropped = timers_.take(bytes, wall_now_seconds());
  if (dropped > 0 && !has_warned_) {
    has_warned_ = true;
    events_.say(LogLevel::warning,
                fmt::format("dropped requests for timers in {}: they are not in PyTorch's format, "
                            "or there are more than {} timers",
                            folder_.timer_file(),
                            FileTimers::kTimersMax));
  }
  set_alarm();
}

void TimerWatch::set_alarm() {
  alarm_.cancel();
  const auto next = timers_.next();
  if (!next) {
    return;
  }
  const double wait = std::clamp(*next - wall_now_seconds(), 0.0, kAlarmSecondsMax);
  alarm_.expires_after(
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(wait)));
  alarm_.async_wait([this](std::error_code error) {
    if (!error) {
      check();
    }
  });
}

void TimerWatch::check() {
  for (const FileTimer& timer : timers_.expire(wall_now_seconds())) {
    expire(timer);
  }
  set_alarm();
}

// The request's process is a worker or a descendant of a worker, for example a DataLoader worker.
// The pipe is writable only for the workers' user, but the pid is untrusted: muster signals no
// other process.
pid_t TimerWatch::worker_of(pid_t pid) const {
  const auto worker = nearest_ancestor(pid, [this](pid_t at) { return workers_.contains(at); });
  return worker ? worker->pid : 0;
}

// A worker cannot be reaped here while it is in workers_, so its pid has not been reused.
void TimerWatch::expire(const FileTimer& timer) {
  const auto worker = workers_.find(worker_of(timer.pid));
  if (worker == workers_.end()) {
    return;
  }
  const auto [local_rank, rank] = worker->second;
  if (timer.signal == 0) {
    events_.say(LogLevel::warning,
                fmt::format("rank {}: {}; it kills no process, since it was set without a signal",
                            rank,
                            describe_timer(timer)));
    return;
  }
  expired_[local_rank] = describe_timer(timer);
  if (timer.pid == worker->first && timer.signal != SIGKILL) {
    ::kill(timer.pid, timer.signal);
  } else {
    runner_.kill_worker(local_rank);
  }
}

void TimerWatch::add_evidence(WorkerFailure& failure) const {
  const auto found = expired_.find(failure.local_rank);
  if (found != expired_.end() && !failure.record) {
    failure.record = ErrorRecord{.message = found->second, .traceback = {}, .unix_seconds = {}};
  }
}

}  // namespace muster
