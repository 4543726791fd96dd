// SPDX-License-Identifier: Apache-2.0
// The path that musterctl forget requests from a launcher. It is served only on the launcher's Unix
// socket. The path contains the node's name in hexadecimal, because a name may contain any byte.
// The response is empty if the node was forgotten, otherwise it is the reason for the failure.
// Functions without state.
#pragma once

#include "status/hex_path.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace muster {

inline constexpr std::string_view kForgetPath = "/v1/forget/";

[[nodiscard]] inline std::string forget_path(std::string_view node) {
  return std::string(kForgetPath) + to_hex(node);
}

// The node's name; nullopt if the path is malformed or is not a forget path.
[[nodiscard]] inline std::optional<std::string> forgotten_node(std::string_view path) {
  return path.starts_with(kForgetPath) ? from_hex(path.substr(kForgetPath.size())) : std::nullopt;
}

}  // namespace muster
