// SPDX-License-Identifier: Apache-2.0
#include "process/death_thread.hpp"

#include <climits>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

namespace muster {
namespace {

// struct futex_waitv, which older headers do not have.
struct WaitEntry {
  std::uint64_t value = 0;
  std::uint64_t address = 0;
  std::uint32_t flags = 2;  // 32 bits, shared
  std::uint32_t reserved = 0;
};

std::uint32_t load(std::uint32_t& word) {
  return std::atomic_ref(word).load();
}

}  // namespace

Result<std::unique_ptr<DeathThread>> DeathThread::start(LifePage& page, int news_fd) {
  std::unique_ptr<DeathThread> out(new DeathThread(page, news_fd));
  // Signals are for the loop's thread.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const int error = ::pthread_create(&thread, nullptr, main, out.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
  std::atomic_ref(stop_).store(1);
  ::syscall(SYS_futex, &stop_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  ::pthread_join(*thread_, nullptr);
}

void* DeathThread::main(void* self) {
  ::pthread_setname_np(::pthread_self(), "job-deaths");
  static_cast<DeathThread*>(self)->watch();
  return nullptr;
}

// What changes after a word was read ends the wait at once, so nothing is missed. A kernel that
// cannot wait for several words (before 5.16) ends the thread: deaths are then seen when reaped.
void DeathThread::watch() {
  std::array<WaitEntry, kLifeWords + 1> entries;
  while (true) {
    bool any_died = false;
    for (std::size_t i = 0; i < kLifeWords; ++i) {
      entries[i].address = reinterpret_cast<std::uint64_t>(&page_.words[i]);
      entries[i].value = load(page_.words[i]);
      any_died = any_died || (entries[i].value & kLifeOwnerDied) != 0;
    }
    entries[kLifeWords].address = reinterpret_cast<std::uint64_t>(&stop_);
    if (load(stop_) != 0) {
      return;
    }
    if (any_died) {
      const std::uint64_t one = 1;
      [[maybe_unused]] const auto told = ::write(news_fd_, &one, sizeof(one));
    }
    const auto done =
        ::syscall(SYS_futex_waitv, entries.data(), entries.size(), 0, nullptr, CLOCK_MONOTONIC);
    if (done < 0 && errno != EAGAIN && errno != EINTR) {
      return;
    }
  }
}

}  // namespace muster
