// SPDX-License-Identifier: Apache-2.0
// The path that musterctl debug requests from a launcher. It is served only on the launcher's Unix
// socket. The rank counts as being debugged until the connection is closed. Functions without
// state.
#pragma once

#include "base/text.hpp"

#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::string_view kDebugPath = "/v1/debug/";

[[nodiscard]] inline std::string debug_path(int rank) {
  return std::string(kDebugPath) + std::to_string(rank);
}

// Nullopt if the path is malformed or is not a debug path.
[[nodiscard]] inline std::optional<int> debugged_rank(std::string_view path) {
  if (!path.starts_with(kDebugPath)) {
    return std::nullopt;
  }
  const auto rank = parse_int(path.substr(kDebugPath.size()));
  return rank && *rank >= 0 && *rank <= std::numeric_limits<int>::max()
             ? std::optional(static_cast<int>(*rank))
             : std::nullopt;
}

}  // namespace muster
