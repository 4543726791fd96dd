// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/liveness.hpp"

#include "base/blocked_signals.hpp"
#include "base/futex.hpp"

#include <utility>

#include <pthread.h>

namespace muster::collective {
namespace {

// Where the kernel cannot wait for several words.
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
    // The thread inherits the mask: a handler of the program's must not run on it.
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
  }
  // Only then may others learn that we are here: who counts on us must be able to see us die.
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
    // After a fork only the thread that called it exists in the child; to join another waits for
    // ever.
    thread_.detach();  // it never was in this process
  }
}

void Liveness::watch() {
  watching_.store(true);
  // Counted first, then woken: a thread that has read the old number and does not sleep yet is sent
  // back by the kernel, which compares.
  calls_.fetch_add(1);
  futex_wake_all(calls_);
}

void Liveness::leave() {
  const std::scoped_lock lock(leaving_);
  if (generation_ != fork_generation() || stopping_.load()) {
    return;
  }
  Member& me = *members_[self_];
  // In this order: who sees the word without a holder finds that we have left, not that we died.
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
  // `calls_` is read before anything that it announces: what changes after this changes the number
  // too, and the wait below returns at once.
  std::vector<FutexWatch> watches{{&calls_, calls_.load()}};
  for (std::size_t i = 0; watching_.load() && i < members_.size(); ++i) {
    const std::uint32_t life = members_[i]->life.load();
    // The kernel wakes one waiter of a word when its holder dies, not all. So whoever finds the
    // mark reports the death in the segment, where the ranks that wait look.
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
  // A kernel without futex_waitv, or more ranks than it takes: looks again every millisecond.
  if (!futex_wait_any(watches)) {
    futex_wait(calls_, watches[0].value, watching_.load() ? kLookAgain : kLong);
  }
}

}  // namespace muster::collective
