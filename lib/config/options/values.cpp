// SPDX-License-Identifier: Apache-2.0
#include "config/options/values.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstring>
#include <limits>
#include <utility>

namespace muster {
namespace {

bool is_digit(char c) {
  return '0' <= c && c <= '9';
}

// Removes underscores, which Python allows between two digits. None if there is an underscore
// elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace

std::optional<std::int64_t> parse_python_int(std::string_view text) {
  const auto plain = without_underscores(trim(text));
  return plain ? parse_int(*plain) : std::nullopt;
}

std::optional<double> parse_python_float(std::string_view text) {
  const auto plain = without_underscores(trim(text));
  if (!plain) {
    return std::nullopt;
  }
  std::string_view rest = *plain;
  if (rest.starts_with('+') && !rest.starts_with("+-")) {
    rest.remove_prefix(1);
  }
  double number = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (error != std::errc{} || end != rest.data() + rest.size() || !std::isfinite(number)) {
    return std::nullopt;
  }
  return number;
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  static constexpr std::string_view kUnits = "kmg";
  std::string number = to_lower(trim(text));
  const auto unit = number.empty() ? std::string_view::npos : kUnits.find(number.back());
  if (unit != std::string_view::npos) {
    number.pop_back();
  }
  const int shift = unit == std::string_view::npos ? 0 : 10 * (static_cast<int>(unit) + 1);
  const auto count = parse_int(number);
  if (!count || *count < 0 || *count > (std::numeric_limits<std::int64_t>::max() >> shift)) {
    return std::nullopt;
  }
  return static_cast<std::uint64_t>(*count) << shift;
}

std::optional<bool> parse_number_flag(std::string_view text) {
  const auto number = parse_python_int(text);
  return number ? std::optional(*number != 0) : std::nullopt;
}

std::optional<bool> parse_word_flag(std::string_view text) {
  static constexpr std::array<std::string_view, 4> kYes{"true", "yes", "on", "t"};
  static constexpr std::array<std::string_view, 4> kNo{"false", "no", "off", "f"};
  const std::string lower = to_lower(trim(text));
  if (std::ranges::find(kYes, lower) != kYes.end()) {
    return true;
  }
  if (std::ranges::find(kNo, lower) != kNo.end()) {
    return false;
  }
  return parse_number_flag(text);
}

std::vector<std::string> split_with_escapes(std::string_view text) {
  std::vector<std::string> parts{""};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ',') {
      parts.back() += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == ',') {
      parts.back() += ',';
      ++i;
    } else {
      parts.emplace_back();
    }
  }
  return parts;
}

std::optional<int> signal_number(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, int>, 3> kAliases{
      {{"io", SIGIO}, {"cld", SIGCHLD}, {"iot", SIGIOT}}};
  const std::string lower = to_lower(trim(name));
  const std::string_view bare = std::string_view(lower).substr(lower.starts_with("sig") ? 3 : 0);
  for (int number = 1; number < 32; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && to_lower(known) == bare) {
      return number;
    }
  }
  const auto alias = std::ranges::find(kAliases, bare, &std::pair<std::string_view, int>::first);
  return alias == kAliases.end() ? std::nullopt : std::optional(alias->second);
}

}  // namespace muster
