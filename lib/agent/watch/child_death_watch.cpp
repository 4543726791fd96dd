// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/child_death_watch.hpp"

#include "base/printable.hpp"

#include <fmt/core.h>

#include <csignal>

namespace muster {

ChildDeathWatch::ChildDeathWatch(asio::io_context& loop,
                                 LinuxRunner& runner,
                                 EventStream& events,
                                 Supervisor& supervisor)
    : runner_(runner), events_(events), supervisor_(supervisor), watch_(loop, *this) {
  if (!DescendantWatch::is_possible()) {
    events_.say(LogLevel::warning,
                "--on-child-death=fail has no effect here: it needs Linux 5.3 and a /proc for this "
                "pid namespace; muster watches only the workers themselves");
  }
}

void ChildDeathWatch::take(const JobEvent& event) {
  if (std::holds_alternative<event::RoundBegun>(event.what)) {
    watch_.end();
    workers_.clear();
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event.what)) {
    workers_[started->local_rank] = started->pid;
    watch_.add_worker(started->pid, started->local_rank, started->rank);
  } else if (const auto* ended = std::get_if<event::WorkerEnded>(&event.what)) {
    workers_.erase(ended->exit.local_rank);
    watch_.drop_worker(ended->exit.local_rank);
  } else if (std::holds_alternative<event::WorkersKilled>(event.what)) {
    watch_.end();
  } else if (const auto* sent = std::get_if<event::WorkersSignalled>(&event.what)) {
    if (sent->signo != SIGSTOP && sent->signo != SIGCONT) {
      watch_.end();  // after a stop request, any exit status is acceptable
    }
  }
}

// The worker's failure counts immediately, as if the worker itself had died. A worker that has lost
// a process may never exit, even when it is asked to stop.
void ChildDeathWatch::on_descendant_failure(const DescendantEnd& end) {
  const auto worker = workers_.find(end.local_rank);
  if (worker == workers_.end() || supervisor_.core().state() != SupervisorState::running) {
    return;
  }
  WorkerExit exit;
  exit.local_rank = end.local_rank;
  exit.pid = worker->second;
  exit.status = end.status;
  exit.out_of_memory = end.out_of_memory;
  exit.memory_usage = end.memory_usage;
  exit.lost_child = fmt::format("process {} ({})", end.pid, printable(end.command));
  runner_.kill_worker(end.local_rank);
  supervisor_.on_worker_killed(exit);
}

void ChildDeathWatch::on_too_many_descendants() {
  events_.say(LogLevel::warning,
              fmt::format("--on-child-death=fail: the workers have too many descendants (limit {}, "
                          "or a quarter of `ulimit -Hn`); some child deaths will go unnoticed",
                          kDescendantsMax));
}

}  // namespace muster
