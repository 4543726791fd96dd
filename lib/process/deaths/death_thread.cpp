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
  // The new thread inherits the mask: the loop's thread alone takes signals.
  const BlockedSignals blocked;
  const int error = ::pthread_create(&thread, nullptr, main, out.get());
  if (error != 0) {
    return std::unexpected(system_error("starting the thread that waits for deaths", error));
  }
  out->thread_ = thread;
  return out;
}

DeathThread::~DeathThread() {
  if (!thread_) {
    return;  // it never ran
  }
  stop_.store(1);
  // Stored first: a thread that is about to sleep is sent back by the kernel, which compares.
  futex_wake_all(stop_);
  ::pthread_join(*thread_, nullptr);
}

void* DeathThread::main(void* self) {
  ::pthread_setname_np(::pthread_self(), "job-deaths");
  run_promptly();
  static_cast<DeathThread*>(self)->watch();
  return nullptr;
}

// What changes after a word was read ends the wait at once, so nothing is missed. A kernel that
// cannot wait for several words (before 5.16) ends the thread: deaths are then seen when reaped.
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
      // A dead word stays marked until another worker gets it, so this may say the same again. The
      // reader keeps a note of those that it has seen.
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto written = ::write(news_fd_, &one, sizeof(one));
    }
  } while (stop_.load() == 0 && futex_wait_any(watches));
}

}  // namespace muster
