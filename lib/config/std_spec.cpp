// SPDX-License-Identifier: Apache-2.0
#include "config/std_spec.hpp"

#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace muster {
namespace {

std::optional<int> stream_bits(std::string_view text) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '3') {
    return std::nullopt;
  }
  return text[0] - '0';
}

// Accepts "12", but not "+12" or " 12".
std::optional<int> rank_number(std::string_view text) {
  const auto number = parse_int(text);
  const bool digits = std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
  if (!number || !digits || *number > 1'000'000) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

}  // namespace

int StdSpec::of(int local_rank) const {
  const auto found = by_rank.find(local_rank);
  return found == by_rank.end() ? all : found->second;
}

Result<StdSpec> parse_std_spec(std::string_view text) {
  const auto refuse = [&] {
    return failure(Errc::usage,
                   fmt::format("'{}' is neither 0, 1 (stdout), 2 (stderr), 3 (both) nor a list of "
                               "RANK:VALUE such as 0:3,1:2",
                               text));
  };
  StdSpec spec;
  if (const auto bits = stream_bits(text)) {
    spec.all = *bits;
    return spec;
  }
  for (const std::string& part : split(text, ',')) {
    const auto colon = part.find(':');
    if (colon == std::string::npos) {
      return refuse();
    }
    const auto rank = rank_number(std::string_view(part).substr(0, colon));
    const auto bits = stream_bits(std::string_view(part).substr(colon + 1));
    if (!rank || !bits) {
      return refuse();
    }
    spec.by_rank[*rank] = *bits;
  }
  return spec;
}

}  // namespace muster
