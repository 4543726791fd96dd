// SPDX-License-Identifier: Apache-2.0
// The path that musterctl forget requests from a launcher. It is served only on the launcher's Unix
// socket. The path contains the node's name in hexadecimal, because a name may contain any byte.
// The response is empty if the node was forgotten, otherwise it is the reason for the failure.
// Functions without state.
#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

inline constexpr std::string_view kForgetPath = "/v1/forget/";

[[nodiscard]] inline std::string forget_path(std::string_view node) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string path(kForgetPath);
  for (const char byte : node) {
    path += kDigits[static_cast<unsigned char>(byte) / 16];
    path += kDigits[static_cast<unsigned char>(byte) % 16];
  }
  return path;
}

// The node's name; nullopt if the path is malformed or is not a forget path.
[[nodiscard]] inline std::optional<std::string> forgotten_node(std::string_view path) {
  if (!path.starts_with(kForgetPath) || path.size() % 2 != kForgetPath.size() % 2) {
    return std::nullopt;
  }
  std::string node;
  for (std::size_t at = kForgetPath.size(); at < path.size(); at += 2) {
    const char* const end = path.data() + at + 2;
    unsigned char byte = 0;
    if (std::from_chars(path.data() + at, end, byte, 16).ptr != end) {
      return std::nullopt;
    }
    node += static_cast<char>(byte);
  }
  return node.empty() ? std::nullopt : std::optional(std::move(node));
}

}  // namespace muster
