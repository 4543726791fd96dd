// SPDX-License-Identifier: Apache-2.0
#include "data.hpp"

#include <algorithm>
#include <charconv>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include <zlib.h>

namespace digits {
namespace {

using muster::Errc;
using muster::failure;

constexpr int kWhite = 16;
constexpr std::size_t kTestEvery = 5;
constexpr std::uint32_t kSplitSeed = 0;

// The next number, at most `most`, and the separator that follows it.
std::optional<int> take_number(std::string_view& line, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc{} || value < 0 || value > most) {
    return std::nullopt;
  }
  line.remove_prefix(static_cast<std::size_t>(end - line.data()));
  line.remove_prefix(std::min<std::size_t>(line.size(), 1));
  return value;
}

bool take_picture(std::string_view line, Pictures& into) {
  for (std::size_t i = 0; i < kPixels; ++i) {
    const auto grey = take_number(line, kWhite);
    if (!grey) {
      return false;
    }
    into.pixels.push_back(static_cast<float>(*grey) / kWhite);
  }
  const auto digit = take_number(line, kDigits - 1);
  into.digits.push_back(static_cast<std::uint8_t>(digit.value_or(0)));
  return digit && line.empty();
}

DataSet split(const Pictures& all) {
  DataSet out;
  const auto order = shuffled(all.count(), kSplitSeed);
  for (std::size_t i = 0; i < order.size(); ++i) {
    Pictures& part = i % kTestEvery == 0 ? out.tests : out.training;
    const auto pixels = all.pixels_of(order[i]);
    part.pixels.insert(part.pixels.end(), pixels.begin(), pixels.end());
    part.digits.push_back(all.digits[order[i]]);
  }
  return out;
}

}  // namespace

Result<DataSet> load_digits(const std::string& path) {
  // gzopen also reads plain files.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) {
    return failure(Errc::invalid_argument, "cannot open the images " + path);
  }
  Pictures all;
  char line[1024];
  for (int number = 1; gzgets(file.get(), line, sizeof line) != nullptr; ++number) {
    if (!take_picture(line, all)) {
      return failure(Errc::invalid_argument,
                     path + ": line " + std::to_string(number) +
                         " is not 64 grey values from 0 to 16 and a digit");
    }
  }
  int error = Z_OK;
  const std::string text = gzerror(file.get(), &error);
  if (error != Z_OK || all.count() == 0) {
    return failure(Errc::invalid_argument,
                   "cannot read " + path + ": " + (error == Z_OK ? "it is empty" : text));
  }
  return split(all);
}

// Not std::shuffle, whose result depends on the standard library.
std::vector<std::size_t> shuffled(std::size_t count, std::uint32_t seed) {
  std::vector<std::size_t> out(count);
  std::iota(out.begin(), out.end(), 0);
  std::mt19937 random(seed);
  for (std::size_t i = count; i > 1; --i) {
    std::swap(out[i - 1], out[random() % i]);
  }
  return out;
}

}  // namespace digits
