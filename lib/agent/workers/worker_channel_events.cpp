// SPDX-License-Identifier: Apache-2.0
// What WorkerChannel tells the workers about the events of the round, and about preemption.
#include "agent/workers/worker_channel.hpp"
#include "base/clock.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string>
#include <type_traits>
#include <utility>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace muster {
namespace {

bool asks_to_end(int signo) {
  return signo != SIGSTOP && signo != SIGTSTP && signo != SIGCONT && signo != SIGUSR1 &&
         signo != SIGUSR2;
}

// Longer than a CPU takes to make an executed store visible to the other CPUs.
constexpr Duration kStoresVisibleAfter = std::chrono::milliseconds(1);

// A memory barrier on all CPUs. It lets the workers poll without a barrier of their own. Kernels
// with nohz_full CPUs do not support it.
Result<void> order_all_stores() {
  if (::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0U, 0) == 0) {
    return {};
  }
  const int error = errno;
  for (const TimePoint until = steady_now() + kStoresVisibleAfter; steady_now() < until;) {
  }
  return std::unexpected(system_error("membarrier() failed, so muster waited instead", error));
}

}  // namespace

void WorkerChannel::take(const JobEvent& event) {
  std::visit(
      [&]<class What>(const What& what) {
        if constexpr (std::is_same_v<What, event::RoundBegun>) {
          begin_round(event, what);
        } else if constexpr (std::is_same_v<What, event::WorkerStarted>) {
          ended_.erase(what.local_rank);
          core_.worker_started(steady_now(), what.local_rank, what.pid);
        } else if constexpr (std::is_same_v<What, event::WorkerEnded>) {
          end_worker(event, what);
        } else if constexpr (std::is_same_v<What, event::RestartDecided>) {
          begin_mend(event, what);
        } else if constexpr (std::is_same_v<What, event::RegroupAsked>) {
          regroup(event, what);
        } else if constexpr (std::is_same_v<What, event::SignalTaken>) {
          reason_ = reason_.empty() ? signal_name(what.signo) : reason_;
        } else if constexpr (std::is_same_v<What, event::WorkersSignalled>) {
          if (asks_to_end(what.signo)) {
            channel::Effects effects;
            core_.tell(channel::Stop{std::chrono::duration<double>(grace_).count(), reason_},
                       effects);
            perform(effects);
          }
        }
      },
      event.what);
}

void WorkerChannel::begin_round(const JobEvent& event, const event::RoundBegun& begun) {
  const Assignment& here = begun.assignment;
  channel::Round round;
  round.epoch = event.round;
  round.rank = here.rank_first;
  round.world_size = here.world_size;
  round.local_world_size = here.local_world_size;
  round.group_rank = here.group_rank;
  round.group_world_size = here.group_world_size;
  round.restarts = here.restart_count;
  round.store_address = here.master_addr;
  round.store_port = here.master_port;
  round.left = begun.change.left;
  round.joined = begun.change.joined;
  reason_.clear();
  ended_.clear();
  preempted_at_.reset();
  pages_.clear();
  pages_.resize(static_cast<std::size_t>(here.local_world_size));
  rank_first_ = here.rank_first;
  records_.clear();
  records_.resize(pages_.size());
  channel::Effects effects;
  core_.begin_round(steady_now(), round, effects);
  perform(effects);
}

void WorkerChannel::begin_mend(const JobEvent& event, const event::RestartDecided& restart) {
  if (restart.replaced.empty()) {
    return;
  }
  std::vector<int> local_ranks;  // the other ranks are on other nodes
  for (const int rank : restart.replaced) {
    const int local_rank = rank - rank_first_;
    if (local_rank >= 0 && std::cmp_less(local_rank, pages_.size())) {
      local_ranks.push_back(local_rank);
      pages_[static_cast<std::size_t>(local_rank)].reset();
    }
  }
  reason_.clear();
  channel::Effects effects;
  core_.begin_mend(event.round, local_ranks, effects);
  perform(effects);
}

void WorkerChannel::end_worker(const JobEvent& event, const event::WorkerEnded& ended) {
  read_pending();
  // The other workers were notified of its death before it was replaced.
  if (core_.was_replaced(ended.exit.pid)) {
    return;
  }
  ended_.insert(ended.rank - rank_first_);
  const ExitStatus& status = ended.exit.status;
  const bool failed =
      !status.success() && !(preempted_at_ && status == ExitStatus{.value = kPreemptedCode});
  const std::string why =
      "rank " + std::to_string(ended.rank) + " on '" + event.node + "' " + status.describe();
  if (failed && reason_.empty()) {
    reason_ = why;
  }
  channel::Effects effects;
  core_.tell(channel::Gone{event.round, ended.rank, 1, failed, why}, effects);
  perform(effects);
}

void WorkerChannel::regroup(const JobEvent& event, const event::RegroupAsked& asked) {
  reason_ = reason_.empty() ? asked.reason : reason_;
  if (asked.gone.count > 0) {
    channel::Effects effects;
    core_.tell(channel::Gone{event.round, asked.gone.first, asked.gone.count, true, asked.reason},
               effects);
    perform(effects);
  }
}

// -- preemption -------------------------------------------------------------------------------

bool WorkerChannel::polls_preemption() const {
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    if (pages_[i] && pages_[i]->polls() && !ended_.contains(static_cast<int>(i))) {
      return true;
    }
  }
  return false;
}

void WorkerChannel::begin_preemption(TimePoint deadline) {
  preempted_at_ = deadline;
  for (auto& page : pages_) {
    if (page) {
      page->give_notice(deadline);
    }
  }
  if (const auto ordered = order_all_stores(); !ordered) {
    events_.say(LogLevel::info, "preemption: " + ordered.error().message);
  }
}

void WorkerChannel::preempt(const channel::PreemptNews& news) {
  channel::Effects effects;
  core_.tell(steady_now(), news, effects);
  perform(effects);
}

}  // namespace muster
