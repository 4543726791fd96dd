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

// linux/futex.h of Debian 12 has these; older ones do not.
struct WaitEntry {
  std::uint64_t value;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};

// linux/sched/types.h: struct sched_attr, which libc does not declare.
struct SchedAttributes {
  std::uint32_t size;
  std::uint32_t policy;
  std::uint64_t flags;
  std::int32_t nice;
  std::uint32_t priority;
  std::uint64_t runtime;  // ns
  std::uint64_t deadline;
  std::uint64_t period;
};

constexpr std::uint64_t kShortestSlice = 100'000;
constexpr std::uint32_t kSize32 = 2;
constexpr std::size_t kMostWatches = 128;

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, Duration patience) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(patience);
  timespec limit{};
  limit.tv_sec = seconds.count();
  limit.tv_nsec = (patience - seconds).count();
  ::syscall(SYS_futex, &word, FUTEX_WAIT, value, &limit, nullptr, 0);
}

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

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
