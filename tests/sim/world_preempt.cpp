// SPDX-License-Identifier: Apache-2.0
// A scheduler announces that it will stop the job. Some workers save and exit in time. The others
// hang, and are killed at the deadline.
#include "sim/world.hpp"

#include <fmt/core.h>

namespace muster::sim {

using std::chrono::milliseconds;

void World::plan_preemption() {
  scheduler_.after(milliseconds(random_.between(0, options_.quick ? 400 : 300'000)), [this] {
    const SupervisorState state = supervisor_->core().state();
    const bool runs = state == SupervisorState::running || state == SupervisorState::mending;
    if (!finished_ && runs && !supervisor_->core().result().preemption) {
      preempt();
    }
  });
}

void World::preempt() {
  starts_at_notice_ = supervisor_->starts();
  notice_at_ = scheduler_.now();
  const Preempts what = options_.shared ? one_of_kinds() : Preempts::job;
  deliver("preempted", Preempted{"simulated", scheduler_.now() + options_.grace, what});
  if (what == Preempts::other_node) {
    others_leave();
  }
  const auto most = std::chrono::duration_cast<milliseconds>(options_.grace).count();
  for (int local_rank = 0; local_rank < options_.nproc; ++local_rank) {
    if (!random_.chance(80)) {
      continue;
    }
    const ExitStatus end{false, random_.chance(50) ? kPreemptedCode : 0};
    scheduler_.after(milliseconds(random_.between(0, most)),
                     [this, local_rank, end, attempt = attempts_] {
                       if (!finished_ && attempt == attempts_) {
                         runner_->exit_worker(local_rank, end);
                       }
                     });
  }
}

Preempts World::one_of_kinds() {
  const std::int64_t kind = random_.between(0, 3);
  return kind == 0 ? Preempts::this_node : kind == 1 ? Preempts::other_node : Preempts::job;
}

// The node that the scheduler stops leaves before or after the workers here have saved. Sometimes
// its workers have finished instead.
void World::others_leave() {
  starts_at_notice_.reset();
  const auto most = std::chrono::duration_cast<milliseconds>(options_.grace).count();
  if (random_.chance(80)) {
    ++options_.regroups;
    others_say(milliseconds(random_.between(0, most)),
               "planned regroup",
               RegroupNotice{"simulated", true});
  }
}

void World::tell_late(const std::vector<int>& local_ranks) {
  trace(fmt::format("{} workers are late", local_ranks.size()));
}

}  // namespace muster::sim
