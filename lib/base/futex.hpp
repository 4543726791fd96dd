// SPDX-License-Identifier: Apache-2.0
// Futex helpers for threads that sleep until a word in shared memory changes. Thread-safe.
#pragma once

#include "base/time.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace muster {

// The kernel sets this bit in a word of a robust list when the thread whose ID is in the word dies.
inline constexpr std::uint32_t kOwnerDied = 0x40000000;
// Makes the kernel wake a waiter when the thread whose ID is in the word dies.
inline constexpr std::uint32_t kHasWaiters = 0x80000000;

// Sleeps while the word equals `value`, until woken or timed out. May return spuriously.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, Duration timeout);

void futex_wake_all(const std::atomic<std::uint32_t>& word);

struct FutexWatch {
  const std::atomic<std::uint32_t>* word;
  std::uint32_t value;
};

// Sleeps while every word equals its expected value. False if there are too many words or the
// kernel is older than 5.16.
[[nodiscard]] bool futex_wait_any(const std::vector<FutexWatch>& watches);

// For a thread that mostly sleeps but must run (or die) immediately when woken, even if other
// threads keep all CPUs busy. Requests the shortest time slices (no effect before Linux 6.12).
void run_promptly();

// For spin loops: leaves more of the core to its sibling hardware thread.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace muster
