// SPDX-License-Identifier: Apache-2.0
// Limits for store clients that wait for a decision by an Admission. Value type.
#pragma once

#include "base/time.hpp"

#include <cstddef>

namespace muster {

struct AdmissionLimits {
  // Maximum number of waiting clients. It is capped at a quarter of the process's descriptor limit.
  // Above this number, the client that has waited longest is refused.
  std::size_t sessions = 1024;

  // Number of bytes read from a client before it is admitted. Further data stays in the kernel.
  std::size_t first_bytes = 4096;

  // A client is refused if there is no decision within this time.
  Duration answer = std::chrono::seconds(5);
};

}  // namespace muster
