// SPDX-License-Identifier: Apache-2.0
// Endpoint: host and port as people write them. Parsing resolves nothing. Value type.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

struct Endpoint {
  std::string host;
  std::optional<std::uint16_t> port;  // 0: any free port

  // "host:29400", "[::1]:29400".
  [[nodiscard]] std::string describe() const;
  bool operator==(const Endpoint&) const = default;
};

// "host", "host:port", "[v6]", "[v6]:port"; a bare IPv6 address is taken whole. Error: usage.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);

}  // namespace muster
