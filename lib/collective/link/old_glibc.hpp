// SPDX-License-Identifier: Apache-2.0
// Functions that glibc 2.28 lacks, by means that it has. libmuster_collective.so gives them to its
// own code and to its copies of libstdc++ and libgcc (glibc_symbols.cpp). From any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>

#include <pthread.h>

namespace muster::collective::old_glibc {

// The loaded object that an address lies in, as the unwinder asks for it.
struct LoadedObject {
  std::uintptr_t begin = 0;  // of its addresses
  std::uintptr_t end = 0;
  const void* unwind_table = nullptr;  // PT_GNU_EH_FRAME
};

// False: no object, or one without a table.
[[nodiscard]] bool find_object(const void* address, LoadedObject& found);

// pthread_cond_timedwait until a time of `clock`; returns 0 early at times, like any such wait. The
// condition variable measures real time, which may be set meanwhile: it waits at most a second.
[[nodiscard]] int wait_on_clock(pthread_cond_t& condition,
                                pthread_mutex_t& mutex,
                                clockid_t clock,
                                const timespec& until);

// Bytes of the kernel's random numbers.
void fill_with_random(void* bytes, std::size_t count);

}  // namespace muster::collective::old_glibc
