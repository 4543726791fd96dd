// SPDX-License-Identifier: Apache-2.0
// Endpoint: host and port as written by users. Parsing does not resolve names. Value type.
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
  std::optional<std::uint16_t> port;  // 0: any free port

  // "host:29400", "[::1]:29400".
  [[nodiscard]] std::string describe() const;
  bool operator==(const Endpoint&) const = default;
};

// "host", "host:port", "[v6]", "[v6]:port"; a bare IPv6 address has no port. Error: usage.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);

// "A-B", two ports from 1 to 65535 in ascending order; none for any other text.
[[nodiscard]] std::optional<std::pair<std::uint16_t, std::uint16_t>> parse_port_range(
    std::string_view text);

}  // namespace muster
