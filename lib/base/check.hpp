// SPDX-License-Identifier: Apache-2.0
// Assertions that stay enabled in release builds: an internal error aborts with file, line and
// condition. Never use them for external input; reject it with an error message instead.
#pragma once

#include <string_view>

namespace muster {

[[noreturn]] void check_failed(std::string_view condition, std::string_view file, int line);

// True if cores check all their invariants after every step. This would slow down every node of a
// job, so only debug builds do it. The simulator makes the same checks itself.
#ifdef NDEBUG
inline constexpr bool kChecksInvariants = false;
#else
inline constexpr bool kChecksInvariants = true;
#endif

}  // namespace muster

#define MUSTER_CHECK(condition)                               \
  do {                                                        \
    if (!(condition)) [[unlikely]] {                          \
      ::muster::check_failed(#condition, __FILE__, __LINE__); \
    }                                                         \
  } while (false)
