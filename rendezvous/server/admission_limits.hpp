// SPDX-License-Identifier: Apache-2.0
// Limits for store clients that wait for the answer of an Admission. Value type.
#pragma once

#include "base/time.hpp"

#include <cstddef>

namespace muster {

struct AdmissionLimits {
  // Maximum number waiting at a time, and at most a quarter of the process's descriptors. Beyond
  // that, the one that has waited longest is refused.
  std::size_t sessions = 1024;

  // Bytes read from one client before its admission. Further data stays in the kernel.
  std::size_t first_bytes = 4096;

  // Without an answer for this long, a client is refused.
  Duration answer = std::chrono::seconds(5);
};

}  // namespace muster
