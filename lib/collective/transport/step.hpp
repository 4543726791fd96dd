// SPDX-License-Identifier: Apache-2.0
// Step: the current part of an operation. On most backends, an operation has one step, the request
// itself. hier sums in several steps, each with its own counts and ranks. Comparisons and errors
// refer to the whole operation, as the user called it. Private to the library.
#pragma once

#include "collective/transport/request.hpp"

#include <cstdint>

namespace muster::collective {

struct Step : Request {
  // Explicit, because an accidental copy would lose the reference to the user's operation, and
  // error messages would then be wrong.
  explicit Step(const Request& request) : Request(request) {}

  // The user's operation, if this is only a part of it. Must outlive the step.
  const Request* whole = nullptr;
  // Divisor for avg. 0 means the number of ranks in this step.
  std::uint64_t average_over = 0;

  [[nodiscard]] const Request& operation() const { return whole != nullptr ? *whole : *this; }
};

}  // namespace muster::collective
