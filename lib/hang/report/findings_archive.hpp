// SPDX-License-Identifier: Apache-2.0
// The archives that serialize the nodes' findings about their ranks. findings_codec visits the same
// fields with the writer and the reader. Pure.
#pragma once

#include "base/byte_reader.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::hang {

// In seconds, over three years. Larger values are clamped.
inline constexpr double kSecondsMax = 1e8;

// Limit on the number of ranks in all lists of one message, because a span of a few bytes can
// encode many ranks.
inline constexpr std::size_t kRanksToldMax = std::size_t{1} << 20;

class FindingsWriter {
 public:
  static constexpr bool kWrites = true;

  explicit FindingsWriter(std::string& out) : out_(out) {}

  void number(std::integral auto value) { append_int(out_, value); }

  void number(int value, int least, int most) {
    append_int(out_, std::int32_t{std::clamp(value, least, most)});
  }

  void flag(bool value) { append_int(out_, static_cast<std::uint8_t>(value)); }

  template <class Enum>
  void choice(Enum value, Enum) {
    append_int(out_, static_cast<std::uint8_t>(value));
  }

  void seconds(double value) {
    append_int(out_, std::bit_cast<std::uint64_t>(value >= 0 ? std::min(value, kSecondsMax) : 0.0));
  }

  void text(std::string_view value, std::size_t most) {
    value = value.substr(0, most);
    append_int(out_, static_cast<std::uint16_t>(value.size()));
    out_ += value;
  }

  template <class Item>
  void list(const std::vector<Item>& items, std::size_t most) {
    const std::size_t count = std::min(items.size(), most);
    append_int(out_, static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      fields(*this, items[i]);
    }
  }

  void texts(const std::vector<std::string>& values, std::size_t count_max, std::size_t most) {
    const std::size_t count = std::min(values.size(), count_max);
    append_int(out_, static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      text(values[i], most);
    }
  }

  // Encodes ranks as spans of consecutive numbers. The total over all lists is limited to what a
  // reader accepts.
  void ranks(const std::vector<int>& ranks) {
    const std::size_t told = std::min(ranks.size(), ranks_left_);
    ranks_left_ -= told;
    std::vector<std::pair<std::int32_t, std::int32_t>> spans;
    for (const int rank : std::span(ranks).first(told)) {
      if (!spans.empty() && std::int64_t{spans.back().first} + spans.back().second == rank) {
        ++spans.back().second;
      } else {
        spans.emplace_back(rank, 1);
      }
    }
    append_int(out_, static_cast<std::uint32_t>(spans.size()));
    for (const auto& [first, count] : spans) {
      append_int(out_, first);
      append_int(out_, count);
    }
  }

 private:
  std::string& out_;
  std::size_t ranks_left_ = kRanksToldMax;
};

class FindingsReader : public ByteReader {
 public:
  using ByteReader::ByteReader;

  void seconds(double& value);
  void ranks(std::vector<int>& ranks);

  template <class Item>
  void list(std::vector<Item>& items, std::size_t most) {
    list_by(*this, items, most);
  }

  // Empty if everything was read and no bytes remain.
  [[nodiscard]] std::string fault() const {
    return ok() && left() > 0 ? "trailing bytes" : ByteReader::fault();
  }

 private:
  std::size_t ranks_left_ = kRanksToldMax;
};

}  // namespace muster::hang
