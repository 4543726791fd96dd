// SPDX-License-Identifier: Apache-2.0
// LinkPorts: what the leader tells all nodes before they measure the links between them. Value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::check {

struct LinkPorts {
  std::vector<std::uint16_t> ports;  // on which the nodes accept measurements; 0: none
  std::string key;                   // with which a connection begins
  bool operator==(const LinkPorts&) const = default;
};

[[nodiscard]] std::string encode(const LinkPorts& ports);
// None if the text is something else, such as a verdict.
[[nodiscard]] std::optional<LinkPorts> decode_link_ports(std::string_view json);

}  // namespace muster::check
