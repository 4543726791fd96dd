// SPDX-License-Identifier: Apache-2.0
// Compares host names. Pure. Thread-safe.
#pragma once

#include "base/text.hpp"

#include <string>
#include <string_view>

namespace muster {

// True if two names refer to the same host: equal ignoring case, or one is the first label of the
// other ("node7" and "node7.cluster").
[[nodiscard]] inline bool is_same_host(std::string_view left, std::string_view right) {
  const std::string a = to_lower(left);
  const std::string b = to_lower(right);
  // The dot keeps "node1" from matching "node10".
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

}  // namespace muster
