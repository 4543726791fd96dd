// SPDX-License-Identifier: Apache-2.0
#include "status/profile_path.hpp"

#include "base/text.hpp"
#include "status/hex_path.hpp"

#include <fmt/core.h>

#include <limits>
#include <vector>

namespace muster {
namespace {

constexpr std::string_view kPath = "/v1/profile/";
constexpr std::size_t kParts = 5;

}  // namespace

bool is_trace_path(std::string_view path) {
  constexpr std::string_view kForbidden("=#\n\r\0", 5);
  return path.starts_with('/') && path.ends_with(".json") &&
         path.find_first_of(kForbidden) == std::string_view::npos;
}

std::string profile_path(const ProfileRequest& request) {
  return fmt::format("{}{}/{}/{}/{}/{}",
                     kPath,
                     request.rank,
                     request.steps,
                     request.milliseconds,
                     request.start,
                     to_hex(request.file));
}

std::optional<ProfileRequest> profile_request(std::string_view path) {
  if (!path.starts_with(kPath)) {
    return std::nullopt;
  }
  const std::vector<std::string> parts = split(path.substr(kPath.size()), '/');
  const auto file = parts.size() == kParts ? from_hex(parts.back()) : std::nullopt;
  if (!file || !is_trace_path(*file)) {
    return std::nullopt;
  }
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i + 1 < kParts; ++i) {
    const auto number = parse_int(parts[i]);
    if (!number || *number < 0) {
      return std::nullopt;
    }
    numbers.push_back(*number);
  }
  const auto [steps, milliseconds] = std::pair(numbers[1], numbers[2]);
  if (numbers[0] > std::numeric_limits<int>::max() || (steps > 0) == (milliseconds > 0)) {
    return std::nullopt;
  }
  return ProfileRequest{static_cast<int>(numbers[0]), steps, milliseconds, numbers[3], *file};
}

}  // namespace muster
