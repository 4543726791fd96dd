// SPDX-License-Identifier: Apache-2.0
// Assertions that stay on in release builds: a broken promise inside our own code ends the program
// with the place and the values. Never for bytes from outside, which are refused with a reason.
#pragma once

#include <string_view>

namespace muster {

[[noreturn]] void check_failed(std::string_view condition, std::string_view file, int line);

// Whether cores check their whole state after every step. That costs time for each node of a job,
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
