// SPDX-License-Identifier: Apache-2.0
// Replacements for functions that glibc 2.28 lacks. libmuster_collective.so provides them to its
// own code and to its copies of libstdc++ and libgcc (glibc_symbols.cpp). Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>

#include <pthread.h>

namespace muster::collective::old_glibc {

// The loaded object that contains an address, for the unwinder.
struct LoadedObject {
  std::uintptr_t begin = 0;  // address range
  std::uintptr_t end = 0;
  const void* unwind_table = nullptr;  // PT_GNU_EH_FRAME
};

// False if no object contains the address, or if it has no unwind table.
[[nodiscard]] bool find_object(const void* address, LoadedObject& found);

// pthread_cond_timedwait with a deadline on `clock`. May return 0 early, as a spurious wakeup. The
// condition variable uses the real-time clock, which may be adjusted during the wait, so each wait
// lasts at most one second.
[[nodiscard]] int wait_on_clock(pthread_cond_t& condition,
                                pthread_mutex_t& mutex,
                                clockid_t clock,
                                const timespec& until);

// Fills the buffer with random bytes from the kernel.
void fill_with_random(void* bytes, std::size_t count);

}  // namespace muster::collective::old_glibc
