// SPDX-License-Identifier: Apache-2.0
#include "base/endpoint.hpp"

#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

namespace muster {
namespace {

Result<std::uint16_t> parse_port(std::string_view text, std::string_view whole) {
  const auto port = parse_int(text);
  const bool digits = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  if (!digits || !port || *port > 65535) {
    return failure(Errc::usage,
                   fmt::format("the port of '{}' must be a number from 0 to 65535", whole));
  }
  return static_cast<std::uint16_t>(*port);
}

bool is_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-' || c == ':' || c == '%';
  });
}

}  // namespace

std::string Endpoint::describe() const {
  const bool brackets = host.find(':') != std::string::npos;
  std::string out = brackets ? "[" + host + "]" : host;
  if (port) {
    out += ":" + std::to_string(*port);
  }
  return out;
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  text = trim(text);
  std::string_view host = text;
  std::optional<std::string_view> port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    host = text.substr(1, end == std::string_view::npos ? 0 : end - 1);
    if (end != std::string_view::npos && end + 1 < text.size()) {
      if (text[end + 1] != ':') {
        host = {};
      }
      port = text.substr(end + 2);
    }
  } else if (std::ranges::count(text, ':') == 1) {
    host = text.substr(0, text.find(':'));
    port = text.substr(text.find(':') + 1);
  }
  if (!is_host(host)) {
    return failure(
        Errc::usage,
        fmt::format("the host of '{}' must be a name, an IPv4 address or an IPv6 address", text));
  }
  Endpoint out{std::string(host), std::nullopt};
  if (port) {
    const auto number = parse_port(*port, text);
    MUSTER_RETURN_IF_ERROR(number);
    out.port = *number;
  }
  return out;
}

std::optional<std::pair<std::uint16_t, std::uint16_t>> parse_port_range(std::string_view text) {
  const auto parts = split(text, '-');
  const auto first = parse_int(parts.front());
  const auto last = parse_int(parts.back());
  if (parts.size() != 2 || !first || !last || *first < 1 || *first > *last || *last > 65535) {
    return std::nullopt;
  }
  return std::pair(static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last));
}

}  // namespace muster
