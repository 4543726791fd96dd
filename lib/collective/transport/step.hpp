// SPDX-License-Identifier: Apache-2.0
// Step: what is to be done now for an operation. A back end that performs operations in one go has
// one step, the request itself; hier sums in several, each with counts and ranks of its own. Ranks
// compare, and errors name, the whole operation: what the user called. Private to the library.
#pragma once

#include "collective/transport/request.hpp"

#include <cstdint>

namespace muster::collective {

struct Step : Request {
  // Explicit: a copy that forgets its operation would show in messages to the user.
  explicit Step(const Request& request) : Request(request) {}

  // What the user called, if this is only a part of it. Outlives the step.
  const Request* whole = nullptr;
  // What avg divides by, if not the ranks of this step.
  std::uint64_t average_over = 0;

  [[nodiscard]] const Request& operation() const { return whole != nullptr ? *whole : *this; }
};

}  // namespace muster::collective
