// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/liveness.hpp"

#include "base/blocked_signals.hpp"
#include "base/futex.hpp"

#include <utility>

#include <pthread.h>

namespace muster::collective {
namespace {

// Polling interval for kernels that cannot wait for several futexes.
constexpr Duration kLookAgain = std::chrono::milliseconds(1);
constexpr Duration kLong = std::chrono::hours(1);

}  // namespace

Liveness::Liveness(std::vector<Member*> members,
                   std::size_t self,
                   std::function<void(std::size_t)> on_death)
    : members_(std::move(members)),
      self_(self),
      on_death_(std::move(on_death)),
      generation_(fork_generation()) {
  {
    // The thread inherits the mask, so the program's signal handlers do not run on it.
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
  }
  // Return only after this store: other ranks must not learn about us before they can detect our
  // death.
  while (held_.load(std::memory_order_acquire) == 0) {
    futex_wait(held_, 0, kLong);
  }
  add_exit_listener(*this);
}

Liveness::~Liveness() {
  remove_exit_listener(*this);
  leave();
  if (generation_ == fork_generation()) {
    thread_.join();
  } else {
    // In a forked child only the thread that called fork exists; joining another one would block
    // forever.
    thread_.detach();  // the thread does not exist in this forked process
  }
}

void Liveness::watch() {
  watching_.store(true);
  // Bump the counter before waking: a thread that read the old value but is not asleep yet then
  // gets EAGAIN from the futex.
  calls_.fetch_add(1);
  futex_wake_all(calls_);
}

void Liveness::leave() {
  const std::scoped_lock lock(leaving_);
  if (generation_ != fork_generation() || stopping_.load()) {
    return;
  }
  Member& me = *members_[self_];
  // Keep this order, so that a rank that sees a word without a holder knows that we left and did
  // not die.
  me.state.store(kLeft);
  word_.let_go(me.life);
  stopping_.store(true);
  calls_.fetch_add(1);
  futex_wake_all(calls_);
}

void Liveness::run() {
  ::pthread_setname_np(::pthread_self(), "muster-coll");
  run_promptly();
  word_.hold(members_[self_]->life);
  members_[self_]->state.store(kHere);
  held_.store(1, std::memory_order_release);
  futex_wake_all(held_);
  std::vector<bool> reported(members_.size(), false);
  while (!stopping_.load()) {
    look_and_sleep(reported);
  }
}

void Liveness::look_and_sleep(std::vector<bool>& reported) {
  // Read `calls_` before `watching_` and `stopping_`. A later change of these flags also increments
  // `calls_`, so the wait below returns immediately.
  std::vector<FutexWatch> watches{{&calls_, calls_.load()}};
  for (std::size_t i = 0; watching_.load() && i < members_.size(); ++i) {
    const std::uint32_t life = members_[i]->life.load();
    // The kernel wakes only one waiter when the holder of a word dies. So the rank that sees the
    // mark reports the death in the segment, which all waiting ranks check.
    if ((life & kOwnerDied) != 0) {
      if (!reported[i]) {
        reported[i] = true;
        on_death_(i);
      }
    } else if (life != 0 && i != self_) {
      watches.push_back({&members_[i]->life, life});
    }
  }
  if (stopping_.load()) {
    return;
  }
  // Without futex_waitv, or with more ranks than it supports: poll every millisecond.
  if (!futex_wait_any(watches)) {
    futex_wait(calls_, watches[0].value, watching_.load() ? kLookAgain : kLong);
  }
}

}  // namespace muster::collective
