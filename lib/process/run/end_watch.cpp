// SPDX-License-Identifier: Apache-2.0
#include "process/run/end_watch.hpp"

#include "base/clock.hpp"
#include "process/values/memory.hpp"

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include <csignal>
#include <utility>

namespace muster {

struct EndWatch::Timer {
  asio::steady_timer timer;
};

EndWatch::EndWatch(asio::io_context& loop,
                   Poller& poller,
                   WorkerTable& workers,
                   std::function<void()> due)
    : workers_(workers),
      due_(std::move(due)),
      death_watch_(poller, [&workers](pid_t pid) { return workers.find(pid) != nullptr; }),
      timer_(std::make_shared<Timer>(asio::steady_timer(loop))) {}

EndWatch::~EndWatch() = default;

void EndWatch::begin_attempt() {
  if (!std::exchange(memory_known_, true)) {
    memory_group_ = own_memory_group();
  }
  kills_before_ = read_memory_kills(memory_group_);
  ends_.begin_attempt();
}

void EndWatch::look_for_dying() {
  for (const Dying& one : death_watch_.take_dying()) {
    note_dying(one.pid, one.status);
  }
}

void EndWatch::note_dying(pid_t pid, const ExitStatus& status) {
  if (workers_.mark_ending(pid)) {
    ends_.add({.exit = describe(pid, *workers_.find(pid), status)});
  }
}

// The first failure may have been caused by a worker that is still dying. /proc shows a death as
// soon as kill() or exit() is called, before any other process can notice it. True if a worker is
// exiting and the kernel does not show its status.
bool EndWatch::look_at_all() {
  bool unknown = false;
  for (const pid_t pid : workers_.live()) {
    const auto ending = ending_of(pid);
    if (ending && ending->failure) {
      note_dying(pid, *ending->failure);
    } else if (ending) {
      unknown = true;
      static_cast<void>(workers_.mark_ending(pid));
    }
  }
  return unknown;
}

void EndWatch::note_reaped(pid_t pid, const LiveWorker& worker, ExitStatus status) {
  ends_.add(
      {.exit = describe(pid, worker, status), .reaped = true, .seen_ending = worker.seen_ending});
}

WorkerExit EndWatch::describe(pid_t pid, const LiveWorker& worker, ExitStatus status) const {
  WorkerExit exit;
  exit.local_rank = worker.local_rank;
  exit.pid = pid;
  exit.status = status;
  if (!status.signaled || status.value != SIGKILL || worker.killed_by_us) {
    return exit;
  }
  const auto now = read_memory_facts(memory_group_);
  if (now.kills && kills_before_ && *now.kills > *kills_before_) {
    exit.out_of_memory = true;
    exit.memory_usage = now.describe();
  }
  return exit;
}

bool EndWatch::tell(ProcessObserver& observer) {
  const bool unknown = ends_.needs_look() && look_at_all();
  for (const WorkerEnd& end : ends_.take(steady_now(), unknown)) {
    if (end.reaped) {
      death_watch_.reaped(end.exit.pid, end.exit.status);
      observer.on_worker_exit(end.exit);
    } else {
      death_watch_.note_failure(end.exit.pid);
      observer.on_worker_dying(end.exit);
    }
  }
  const auto until = ends_.held_until();
  if (until) {
    set_timer(*until);
  }
  return !until;
}

void EndWatch::set_timer(TimePoint until) {
  timer_->timer.expires_at(until);
  // The token guards against a queued handler that runs after this object is destroyed.
  timer_->timer.async_wait([this, token = std::weak_ptr(timer_)](const asio::error_code& error) {
    if (!error && !token.expired()) {
      due_();
    }
  });
}

}  // namespace muster
