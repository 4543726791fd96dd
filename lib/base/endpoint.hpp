// SPDX-License-Identifier: Apache-2.0
// Endpoint: a host and port as typed by the user. Parsing does not resolve names. Value type.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster {

struct Endpoint {
  std::string host;
  std::optional<std::uint16_t> port;  // 0 for any free port

  // "host:29400" or "[::1]:29400".
  [[nodiscard]] std::string describe() const;
  bool operator==(const Endpoint&) const = default;
};

// Accepts "host", "host:port", "[v6]" and "[v6]:port". A bare IPv6 address has no port. Error:
// usage.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);

// Parses "A-B", two ports from 1 to 65535 in ascending order. None for any other text.
[[nodiscard]] std::optional<std::pair<std::uint16_t, std::uint16_t>> parse_port_range(
    std::string_view text);

}  // namespace muster
