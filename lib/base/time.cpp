// SPDX-License-Identifier: Apache-2.0
#include "base/time.hpp"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace muster {
namespace {

constexpr double kDurationMaxSeconds = 1e9;

// The unit at the start of `text`, in seconds, and the length of its name; 0 if there is none.
std::pair<double, std::size_t> leading_unit(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };

  static constexpr std::array<Unit, 6> kUnits{
      {{"ms", 1e-3}, {"us", 1e-6}, {"s", 1.0}, {"m", 60.0}, {"h", 3600.0}, {"d", 86400.0}}};
  for (const auto& unit : kUnits) {
    if (text.starts_with(unit.name)) {
      return {unit.seconds, unit.name.size()};
    }
  }
  return {1.0, 0};
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const auto refuse = [&] {
    return failure(Errc::usage,
                   fmt::format("'{}' is not a duration such as 30, 0.5 or 1m30s", text));
  };
  double seconds = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    double number = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (error != std::errc{} || number < 0 || !std::isfinite(number)) {
      return refuse();
    }
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    const auto [factor, length] = leading_unit(rest);
    if (length == 0 && !rest.empty()) {
      return refuse();
    }
    rest.remove_prefix(length);
    seconds += number * factor;
  }
  if (text.empty() || seconds > kDurationMaxSeconds) {
    return refuse();
  }
  return Duration(std::llround(seconds * 1e9));
}

std::string describe(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (std::fabs(seconds) >= 1 || duration.count() == 0) {
    return fmt::format("{:.4g}s", seconds);
  }
  if (std::fabs(seconds) >= 1e-3) {
    return fmt::format("{:.4g}ms", seconds * 1e3);
  }
  return fmt::format("{:.4g}us", seconds * 1e6);
}

}  // namespace muster
