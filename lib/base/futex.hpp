// SPDX-License-Identifier: Apache-2.0
// Futex helpers for threads that sleep until a word in shared memory changes. Any thread.
#pragma once

#include "base/time.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace muster {

// A word in a robust list: the kernel sets this bit when the thread whose id is in the word dies.
inline constexpr std::uint32_t kOwnerDied = 0x40000000;
// Asks the kernel to wake a waiter then.
inline constexpr std::uint32_t kHasWaiters = 0x80000000;

// Sleeps while the word is `value`, until woken or timed out. Spurious returns are possible.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, Duration timeout);

void futex_wake_all(const std::atomic<std::uint32_t>& word);

struct FutexWatch {
  const std::atomic<std::uint32_t>* word;
  std::uint32_t value;
};

// Sleeps while all words have their values. False: unsupported (kernel before 5.16), or too many.
[[nodiscard]] bool futex_wait_any(const std::vector<FutexWatch>& watches);

// For a thread that only sleeps, but must run or die at once when woken even if other threads keep
// all CPUs busy: gives it the shortest time slices (Linux 6.12; no effect before).
void run_promptly();

// For spin loops: leaves more of the core to its other hardware thread.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace muster
