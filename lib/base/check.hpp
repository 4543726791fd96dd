// SPDX-License-Identifier: Apache-2.0
// Assertions that stay on in release builds: an internal error aborts with file, line and
// condition. Never for external input, which is rejected with a reason.
#pragma once

#include <string_view>

namespace muster {

[[noreturn]] void check_failed(std::string_view condition, std::string_view file, int line);

// Whether cores check all their invariants after every step. That costs time on each node of a job,
// so only debug builds do it; the simulator does it itself.
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
