// SPDX-License-Identifier: Apache-2.0
// Compares the replacements for functions that glibc 2.28 lacks with this machine's own functions.
#include "collective/link/old_glibc.hpp"

#include "support/catch.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <set>
#include <stdexcept>

#include <dlfcn.h>

namespace muster::collective {
namespace {

using old_glibc::LoadedObject;

timespec after(clockid_t clock, std::int64_t ns) {
  timespec now{};
  clock_gettime(clock, &now);
  const std::int64_t end = std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec + ns;
  return {.tv_sec = end / 1'000'000'000, .tv_nsec = end % 1'000'000'000};
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
TEST_CASE("finds the same object for an address as the loader", "[collective][old_glibc]") {
  const std::array<const void*, 3> addresses = {reinterpret_cast<const void*>(&std::strtol),
                                                reinterpret_cast<const void*>(&after),
                                                typeid(std::logic_error).name()};
  for (const void* address : addresses) {
    dl_find_object expected{};
    LoadedObject found;
    REQUIRE(_dl_find_object(const_cast<void*>(address), &expected) == 0);
    REQUIRE(old_glibc::find_object(address, found));
    CHECK(found.unwind_table == expected.dlfo_eh_frame);
    CHECK(found.begin <= reinterpret_cast<std::uintptr_t>(address));
    CHECK(reinterpret_cast<std::uintptr_t>(address) < found.end);
    // The loader rounds to page boundaries, and reports only one segment of an object that has gaps
    // between its segments.
    const auto begin = reinterpret_cast<std::uintptr_t>(expected.dlfo_map_start);
    const auto end = reinterpret_cast<std::uintptr_t>(expected.dlfo_map_end);
    const bool is_inside = found.begin >= begin && found.end <= end + 4096;
    const bool contains = found.begin <= begin && end <= found.end + 4096;
    CHECK((is_inside || contains));
  }
}
#endif

TEST_CASE("finds no object for an address outside all objects", "[collective][old_glibc]") {
  const auto on_heap = std::make_unique<int>(1);
  LoadedObject found;
  CHECK(!old_glibc::find_object(on_heap.get(), found));
  CHECK(!old_glibc::find_object(nullptr, found));
}

TEST_CASE("a wait ends at its clock's deadline, and at once if that has passed",
          "[collective][old_glibc]") {
  pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  for (const clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME}) {
    for (const std::int64_t ns : {std::int64_t{2'000'000}, std::int64_t{-5'000'000'000}}) {
      const timespec until = after(clock, ns);
      CHECK(old_glibc::wait_on_clock(condition, mutex, clock, until) == ETIMEDOUT);
      const timespec now = after(clock, 0);
      CHECK(std::pair(now.tv_sec, now.tv_nsec) >= std::pair(until.tv_sec, until.tv_nsec));
    }
  }
  // A distant deadline: the thread wakes up to check the clock again before the deadline has
  // passed.
  CHECK(old_glibc::wait_on_clock(
            condition, mutex, CLOCK_MONOTONIC, after(CLOCK_MONOTONIC, 3'600'000'000'000)) == 0);
  pthread_mutex_unlock(&mutex);
}

TEST_CASE("random bytes differ", "[collective][old_glibc]") {
  std::set<std::array<unsigned char, 16>> seen;
  for (int i = 0; i < 100; ++i) {
    std::array<unsigned char, 16> bytes{};
    old_glibc::fill_with_random(bytes.data(), bytes.size());
    seen.insert(bytes);
  }
  CHECK(seen.size() == 100);
}

}  // namespace
}  // namespace muster::collective
