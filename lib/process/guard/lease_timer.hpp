// SPDX-License-Identifier: Apache-2.0
// LeaseTimer: the dead man's switch between agent and guard. One timer of the kernel that both
// hold: the agent sets it anew for as long as it is allowed to run workers, the guard waits for it
// to go off. So a stopped agent is noticed on time and nobody looks at a clock meanwhile. Made by
// main before run_guarded, in jobs of many nodes only. Resource.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

namespace muster {

class LeaseTimer {
 public:
  // `lease`: after so long a silence the other nodes go on without this one.
  [[nodiscard]] static Result<LeaseTimer> make(Duration lease);

  // The agent: workers may run until then. A later word replaces an earlier one, also one that was
  // due and not yet seen.
  void run_until(TimePoint when) const;

  // The agent: no worker runs, nothing is to be watched.
  void rest() const;

  // The agent: whether the guard has ended workers since the last call.
  [[nodiscard]] bool take_fence() const;

  // The guard: how often it must run, so that it fences in time even if somebody stops it.
  [[nodiscard]] Duration wake_interval() const { return lease_ / kWakesPerLease; }

  // The guard: readable once the time has come.
  [[nodiscard]] int fd() const { return timer_.get(); }

  // The guard: whether the time has come and no other was set since; true once for each.
  [[nodiscard]] bool take_expired() const;

  // The guard: whether the agent is allowed to run workers again, who are others then.
  [[nodiscard]] bool is_running() const;

  // The guard, before it kills: the agent shall not take that for a failure.
  void note_fence() const;

 private:
  static constexpr int kWakesPerLease = 8;

  LeaseTimer(Duration lease, UniqueFd timer, UniqueFd fences)
      : lease_(lease), timer_(std::move(timer)), fences_(std::move(fences)) {}

  Duration lease_;
  UniqueFd timer_;
  UniqueFd fences_;
};

}  // namespace muster
