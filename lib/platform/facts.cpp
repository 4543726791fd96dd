// SPDX-License-Identifier: Apache-2.0
#include "platform/facts.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cctype>

namespace muster {
namespace {

bool is_word(std::string_view text) {
  return text.size() <= kWordMax &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isgraph(c) != 0; });
}

std::optional<int> digits(std::string_view text) {
  const bool plain =
      !text.empty() && std::ranges::all_of(text, [](char c) { return '0' <= c && c <= '9'; });
  const auto value = plain ? parse_int(text) : std::nullopt;
  return value && *value <= std::numeric_limits<int>::max()
             ? std::optional(static_cast<int>(*value))
             : std::nullopt;
}

std::string first_label(std::string_view name) {
  return to_lower(name.substr(0, name.find('.')));
}

bool has_domain(std::string_view name) {
  return name.find('.') != std::string_view::npos;
}

}  // namespace

bool PlatformFacts::has(std::string_view name) const {
  return text(name).has_value();
}

bool PlatformFacts::has_all(std::initializer_list<std::string_view> names) const {
  return std::ranges::all_of(names, [&](std::string_view name) { return has(name); });
}

std::optional<Said<std::string>> PlatformFacts::text(std::string_view name) const {
  auto value = environ.get(name);
  if (!value || trim(*value).empty() || *value == "(null)") {
    return std::nullopt;
  }
  return Said<std::string>{std::move(*value), std::string(name)};
}

std::optional<Said<std::string>> PlatformFacts::word(std::string_view name) const {
  auto value = text(name);
  return value && is_word(value->value) ? std::move(value) : std::nullopt;
}

std::optional<Said<int>> PlatformFacts::number(std::string_view name, int least, int most) const {
  const auto value = digits(environ.get(name).value_or(""));
  return value && least <= *value && *value <= most
             ? std::optional(Said<int>{*value, std::string(name)})
             : std::nullopt;
}

std::optional<Said<std::uint16_t>> PlatformFacts::port(std::string_view name) const {
  const auto value = number(name, 1, std::numeric_limits<std::uint16_t>::max());
  return value ? std::optional(
                     Said<std::uint16_t>{static_cast<std::uint16_t>(value->value), value->origin})
               : std::nullopt;
}

std::optional<Said<int>> PlatformFacts::machines() const {
  auto count = number("NNODES", 1);
  return count ? count : number("NUM_NODES", 1);
}

std::optional<std::string> PlatformFacts::service_link() const {
  const auto value = word("MASTER_PORT");
  if (!value || value->value.find("://") == std::string::npos) {
    return std::nullopt;
  }
  return "ignoring MASTER_PORT=" + value->value +
         ": Kubernetes set it for a Service named 'master'; it is not a port number. Set "
         "enableServiceLinks: false in the pod, or pass --master-port";
}

bool PlatformFacts::is_me(std::string_view name) const {
  // "NODE02" matches "node02.cluster". Two names with domains must match completely. Addresses are
  // compared only with this host's own addresses.
  const bool numeric = std::ranges::all_of(
      name, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.' || c == ':'; });
  if (numeric) {
    const auto own = addresses();
    return std::ranges::find(own, name) != own.end();
  }
  if (to_lower(name) == to_lower(hostname)) {
    return true;
  }
  return !(has_domain(name) && has_domain(hostname)) && first_label(name) == first_label(hostname);
}

std::optional<int> PlatformFacts::my_place(const std::vector<std::string>& names) const {
  const auto found = std::ranges::find_if(names, [&](const auto& name) { return is_me(name); });
  return found == names.end() ? std::nullopt
                              : std::optional(static_cast<int>(found - names.begin()));
}

}  // namespace muster
