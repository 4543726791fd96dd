// SPDX-License-Identifier: Apache-2.0
// What the clients of a store may cost that wait for the answer of an Admission. Value type.
#pragma once

#include "base/time.hpp"

#include <cstddef>

namespace muster {

struct AdmissionLimits {
  // That wait at a time, and never more than a quarter of the process's descriptors; then the one
  // that has waited longest is refused.
  std::size_t sessions = 1024;

  // Of one client, read before the question and kept until the answer; what else it sends waits in
  // the kernel.
  std::size_t first_bytes = 4096;

  // Without an answer for so long a client is refused.
  Duration answer = std::chrono::seconds(5);
};

}  // namespace muster
