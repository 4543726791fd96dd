// SPDX-License-Identifier: Apache-2.0
#include "collective/link/old_glibc.hpp"

#include "base/check.hpp"
#include "base/random.hpp"

#include <algorithm>
#include <cerrno>

#include <link.h>

namespace muster::collective::old_glibc {
namespace {

constexpr std::int64_t kNsPerS = 1'000'000'000;
constexpr std::int64_t kLongestWaitNs = kNsPerS;

struct Search {
  std::uintptr_t address;
  LoadedObject* found;
};

// Callback for dl_iterate_phdr; a result of 1 stops the search.
int visit(dl_phdr_info* info, std::size_t /*size*/, void* data) {
  const auto& search = *static_cast<Search*>(data);
  LoadedObject object{.begin = UINTPTR_MAX};
  bool contains = false;
  for (ElfW(Half) i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD) {
      object.begin = std::min(object.begin, begin);
      object.end = std::max(object.end, begin + header.p_memsz);
      contains = contains || (search.address >= begin && search.address - begin < header.p_memsz);
    } else if (header.p_type == PT_GNU_EH_FRAME) {
      object.unwind_table = reinterpret_cast<const void*>(begin);
    }
  }
  if (contains) {
    *search.found = object;
  }
  return contains ? 1 : 0;
}

std::int64_t nanoseconds(const timespec& time) {
  return std::int64_t{time.tv_sec} * kNsPerS + time.tv_nsec;
}

}  // namespace

bool find_object(const void* address, LoadedObject& found) {
  Search search{.address = reinterpret_cast<std::uintptr_t>(address), .found = &found};
  return dl_iterate_phdr(visit, &search) != 0 && found.unwind_table != nullptr;
}

int wait_on_clock(pthread_cond_t& condition,
                  pthread_mutex_t& mutex,
                  clockid_t clock,
                  const timespec& until) {
  timespec now{};
  timespec real{};
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &real) != 0) {
    return errno;
  }
  const std::int64_t left = nanoseconds(until) - nanoseconds(now);
  const std::int64_t end = nanoseconds(real) + std::clamp<std::int64_t>(left, 0, kLongestWaitNs);
  const timespec deadline{.tv_sec = end / kNsPerS, .tv_nsec = end % kNsPerS};
  const int result = pthread_cond_timedwait(&condition, &mutex, &deadline);
  return result == ETIMEDOUT && left > kLongestWaitNs ? 0 : result;
}

void fill_with_random(void* bytes, std::size_t count) {
  MUSTER_CHECK(fill_random({static_cast<std::byte*>(bytes), count}));
}

}  // namespace muster::collective::old_glibc
