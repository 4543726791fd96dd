// SPDX-License-Identifier: Apache-2.0
// The images: 8×8 grey values and the digit that each shows, read from a .csv or .csv.gz file; and
// their order in an epoch. The same on every rank. Value types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <muster/result.hpp>
#include <span>
#include <string>
#include <vector>

namespace digits {

using muster::Result;

inline constexpr std::size_t kPixels = 64;
inline constexpr std::size_t kDigits = 10;

struct Pictures {
  std::vector<float> pixels;  // kPixels per image, from 0 to 1
  std::vector<std::uint8_t> digits;

  [[nodiscard]] std::size_t count() const { return digits.size(); }

  [[nodiscard]] std::span<const float> pixels_of(std::size_t picture) const {
    return std::span(pixels).subspan(picture * kPixels, kPixels);
  }
};

struct DataSet {
  Pictures training;
  Pictures tests;  // every fifth image; not used for training
};

[[nodiscard]] Result<DataSet> load_digits(const std::string& path);

// The numbers from 0 to count - 1 in an order determined by the seed.
[[nodiscard]] std::vector<std::size_t> shuffled(std::size_t count, std::uint32_t seed);

}  // namespace digits
