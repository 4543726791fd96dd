// SPDX-License-Identifier: Apache-2.0
#include "process/deaths/death_thread.hpp"

#include "base/blocked_signals.hpp"
#include "base/futex.hpp"

#include <vector>

#include <unistd.h>

namespace muster {

Result<std::unique_ptr<DeathThread>> DeathThread::start(LivenessPage& page, int news_fd) {
  std::unique_ptr<DeathThread> out(new DeathThread(page, news_fd));
  pthread_t thread{};
  // The new thread inherits the signal mask, so only the loop's thread receives signals.
  const BlockedSignals blocked;
  const int error = ::pthread_create(&thread, nullptr, main, out.get());
  if (error != 0) {
    return std::unexpected(
        system_error("cannot start the thread that detects worker deaths", error));
  }
  out->thread_ = thread;
  return out;
}

DeathThread::~DeathThread() {
  if (!thread_) {
    return;  // the thread was never started
  }
  stop_.store(1);
  // Store before waking: if the thread is about to sleep, the kernel notices that the value differs
  // and returns EAGAIN.
  futex_wake_all(stop_);
  ::pthread_join(*thread_, nullptr);
}

void* DeathThread::main(void* self) {
  ::pthread_setname_np(::pthread_self(), "job-deaths");
  run_promptly();
  static_cast<DeathThread*>(self)->watch();
  return nullptr;
}

// If a word changes after it was read, the wait returns immediately, so no death is missed. The
// thread exits if the kernel cannot wait on several futexes at once (before 5.16). Deaths are then
// detected when workers are reaped.
void DeathThread::watch() {
  std::vector<FutexWatch> watches;
  do {
    bool any_died = false;
    watches.assign({{&stop_, 0}});
    for (const auto& word : page_.words) {
      watches.push_back({&word, word.load()});
      any_died = any_died || (watches.back().value & kOwnerDied) != 0;
    }
    if (any_died) {
      // The liveness word of a dead worker stays marked until it is assigned to another worker, so
      // this thread may report a death more than once. DeathWatch ignores deaths that it has
      // already seen.
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(news_fd_, &one, sizeof(one));
    }
  } while (stop_.load() == 0 && futex_wait_any(watches));
}

}  // namespace muster
