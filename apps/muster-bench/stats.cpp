// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/stats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace muster::bench {
namespace {

std::string three_digits(double number) {
  if (number == 0) {
    return "0";
  }
  const auto exponent = static_cast<int>(std::floor(std::log10(std::fabs(number) * 1.0005)));
  return fmt::format("{:.{}f}", number, std::clamp(2 - exponent, 0, 4));
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  std::ranges::sort(samples);
  const auto middle = samples.size() / 2;
  const auto median =
      samples.size() % 2 == 1 ? samples[middle] : (samples[middle - 1] + samples[middle]) / 2;
  return {median, samples.front(), samples.back()};
}

std::string readable(double number) {
  const double size = std::fabs(number);
  if (size >= 999'500) {
    return three_digits(number / 1e6) + "M";
  }
  return size >= 9'995 ? three_digits(number / 1e3) + "k" : three_digits(number);
}

}  // namespace muster::bench
