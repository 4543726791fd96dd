// SPDX-License-Identifier: Apache-2.0
#include "collective/liveness.hpp"

#include "base/blocked_signals.hpp"
#include "base/futex.hpp"

#include <cstddef>
#include <utility>

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    const BlockedSignals blocked;
    thread_ = std::thread([this] { run(); });
  }
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
    thread_.detach();  // it never was in this process
  }
}

void Liveness::watch() {
  watching_.store(true);
  calls_.fetch_add(1);
  futex_wake_all(calls_);
}

void Liveness::leave() {
  const std::scoped_lock lock(leaving_);
  if (generation_ != fork_generation() || stopping_.load()) {
    return;
  }
  Member& me = *members_[self_];
  me.state.store(kLeft);
  head_.first.next = &head_.first;
  me.life.store(0);
  futex_wake_all(me.life);
  stopping_.store(true);
  calls_.fetch_add(1);
  futex_wake_all(calls_);
}

void Liveness::hold_word() {
  Member& me = *members_[self_];
  head_.offset =
      static_cast<long>(offsetof(Member, life)) - static_cast<long>(offsetof(Member, node));
  // In place of glibc's own list: this thread takes no robust mutex.
  ::syscall(SYS_set_robust_list, &head_, sizeof(head_));
  me.node.next = &head_.first;
  head_.first.next = &me.node;
  me.life.store(static_cast<std::uint32_t>(::gettid()) | kHasWaiters);
  me.state.store(kHere);
}

void Liveness::run() {
  ::pthread_setname_np(::pthread_self(), "muster-coll");
  run_promptly();
  hold_word();
  held_.store(1, std::memory_order_release);
  futex_wake_all(held_);
  std::vector<bool> told(members_.size(), false);
  while (!stopping_.load()) {
    look_and_sleep(told);
  }
}

void Liveness::look_and_sleep(std::vector<bool>& told) {
  std::vector<FutexWatch> watches{{&calls_, calls_.load()}};
  for (std::size_t i = 0; watching_.load() && i < members_.size(); ++i) {
    const std::uint32_t life = members_[i]->life.load();
    if ((life & kOwnerDied) != 0) {
      if (!told[i]) {
        told[i] = true;
        on_death_(i);
      }
    } else if (life != 0 && i != self_) {
      watches.push_back({&members_[i]->life, life});
    }
  }
  if (stopping_.load()) {
    return;
  }
  if (!futex_wait_any(watches)) {
    futex_wait(calls_, watches[0].value, watching_.load() ? kLookAgain : kLong);
  }
}

}  // namespace muster::collective
