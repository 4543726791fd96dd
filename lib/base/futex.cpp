// SPDX-License-Identifier: Apache-2.0
#include "base/futex.hpp"

#include <climits>

#include <array>
#include <cerrno>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

namespace muster {
namespace {

// Debian 12's linux/futex.h defines these; older versions do not.
struct WaitEntry {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};

// struct sched_attr from linux/sched/types.h, which libc does not declare.
struct SchedAttributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime;  // nanoseconds
  std::uint64_t deadline;
  std::uint64_t period;
};

// Nanoseconds: the minimum that the scheduler accepts. Since Linux 6.12, an ordinary thread's
// sched_runtime is its requested time slice, between 0.1 and 100 ms. Older kernels ignore it.
constexpr std::uint64_t kShortestSlice = 100'000;
constexpr std::uint32_t kSize32 = 2;       // FUTEX2_SIZE_U32
constexpr std::size_t kMostWatches = 128;  // FUTEX_WAITV_MAX

}  // namespace

// This file never uses FUTEX_PRIVATE_FLAG: the words are in memory shared between processes, and
// the kernel looks up the waiters of a private futex by address space. Results are ignored because
// EAGAIN (the word has already changed), EINTR and ETIMEDOUT all make the caller's loop check the
// word again.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, Duration timeout) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(timeout);
  timespec limit{};
  limit.tv_sec = seconds.count();
  limit.tv_nsec = (timeout - seconds).count();
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// There is no timeout. A caller that must be able to stop adds its own word to the watches. After
// EAGAIN (a word has already changed) or EINTR the caller checks again. ENOSYS means that the
// kernel is older than 5.16. EPERM means that a seccomp filter blocks the call, as in older
// container runtimes.
bool futex_wait_any(const std::vector<FutexWatch>& watches) {
  if (watches.empty() || watches.size() > kMostWatches) {
    return false;
  }
  std::array<WaitEntry, kMostWatches> entries{};
  for (std::size_t i = 0; i < watches.size(); ++i) {
    entries[i] = {watches[i].value, reinterpret_cast<std::uint64_t>(watches[i].word), kSize32, 0};
  }
  const auto done =
      ::syscall(SYS_futex_waitv, entries.data(), watches.size(), 0, nullptr, CLOCK_MONOTONIC);
  return done >= 0 || (errno != ENOSYS && errno != EINVAL && errno != EPERM);
}

void run_promptly() {
  SchedAttributes attributes{};
  attributes.size = sizeof(attributes);
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) == 0) {
    attributes.runtime = kShortestSlice;
    ::syscall(SYS_sched_setattr, 0, &attributes, 0);
  }
}

}  // namespace muster
