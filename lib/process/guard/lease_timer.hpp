// SPDX-License-Identifier: Apache-2.0
// LeaseTimer: the dead man's switch between agent and guard. They share one kernel timer: the agent
// rearms it as long as it may run workers, and the guard waits for it to expire. A stopped agent is
// thus detected on time without polling a clock. Created by main before run_guarded, only in
// multi-node jobs. Resource.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/time.hpp"

namespace muster {

class LeaseTimer {
 public:
  // `lease`: how long this node may be silent before the other nodes continue without it.
  [[nodiscard]] static Result<LeaseTimer> make(Duration lease);

  // Agent: allows workers to run until `when`. Replaces the previous deadline, even one that has
  // expired but was not handled.
  void run_until(TimePoint when) const;

  // Agent: disarms the timer, because no worker runs.
  void rest() const;

  // Agent: true if the guard has killed workers since the last call.
  [[nodiscard]] bool take_fence() const;

  // Guard: the interval at which the guard must be woken, so that it kills the workers in time even
  // if it was stopped.
  [[nodiscard]] Duration wake_interval() const { return lease_ / kWakesPerLease; }

  // Guard: readable once the timer has expired.
  [[nodiscard]] int fd() const { return timer_.get(); }

  // Guard: true if the timer has expired and was not rearmed. Returns true only once per expiry.
  [[nodiscard]] bool take_expired() const;

  // Guard: true if the agent has rearmed the timer. Workers that are running then were started
  // after the lease expired.
  [[nodiscard]] bool is_running() const;

  // Guard: call before killing, so that the agent does not treat the deaths as failures.
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
