// SPDX-License-Identifier: Apache-2.0
// What threads need that sleep until a word changes in memory that processes share. Any thread.
#pragma once

#include "base/time.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace muster {

// A word of a robust list: the kernel sets this bit when the thread whose id it holds has died.
inline constexpr std::uint32_t kOwnerDied = 0x40000000;
// Asks the kernel to wake somebody then.
inline constexpr std::uint32_t kHasWaiters = 0x80000000;

// While the word is `value`, until woken or `timeout` is over. May return for no reason.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t value, Duration timeout);

void futex_wake_all(const std::atomic<std::uint32_t>& word);

struct FutexWatch {
  const std::atomic<std::uint32_t>* word;
  std::uint32_t value;
};

// While all words have their values; false: this kernel cannot (before 5.16), or not so many.
[[nodiscard]] bool futex_wait_any(const std::vector<FutexWatch>& watches);

// For a thread that only sleeps and must run at once when it is woken, or has to die, though others
// keep all processors busy: its time slices are the shortest (Linux 6.12; without effect before).
void run_promptly();

// Inside a loop that spins on a word: leaves more of the core to its other hardware thread.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace muster
