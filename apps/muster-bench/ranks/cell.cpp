// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/ranks/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

namespace muster::bench {
namespace {

using collective::DType;

constexpr std::array kTypes{
    DType::i8, DType::i32, DType::i64, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr std::array<std::string_view, 5> kOperations{
    "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"};
constexpr std::size_t kPeriod = 4;              // elements after which the pattern repeats
constexpr std::size_t kPatternBytes = 1 << 15;  // copied as one block, so a multiple of every width
constexpr int kFirstExponent = -100;            // for f32, bf16 and f64
constexpr int kFirstHalfExponent = -12;
constexpr int kHalfDoublings = 20;
constexpr int kDoublings = 200;

bool is_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f32 || dtype == DType::f64;
}

int first_exponent(DType dtype) {
  return dtype == DType::f16 ? kFirstHalfExponent : kFirstExponent;
}

// The f16 bits of a small integer times a power of two. f16 represents this value exactly.
std::uint16_t half_bits(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(value, &exponent);  // 0.5 … 1
  const auto fraction = static_cast<unsigned>(std::ldexp(mantissa, 11)) & 0x3ffU;
  return static_cast<std::uint16_t>(static_cast<unsigned>(exponent - 1 + 15) << 10 | fraction);
}

template <class T>
void put(char* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

// Encodes `small` times 2^exponent. Integer types ignore the exponent and wrap around.
void encode(DType dtype, std::uint64_t small, int exponent, char* to) {
  const double value = std::ldexp(static_cast<double>(small), exponent);
  switch (dtype) {
    case DType::f64:
      return put(to, value);
    case DType::f32:
      return put(to, static_cast<float>(value));
    case DType::bf16:
      return put(to,
                 static_cast<std::uint16_t>(
                     std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16));
    case DType::f16:
      return put(to, half_bits(value));
    default:
      std::memcpy(to, &small, size_of(dtype));  // the low bytes on a little-endian machine
  }
}

std::vector<char> repeated(DType dtype,
                           const std::array<std::uint64_t, kPeriod>& small,
                           int exponent) {
  const std::size_t width = size_of(dtype);
  std::vector<char> pattern(kPatternBytes);
  for (std::size_t i = 0; i * width < kPatternBytes; ++i) {
    encode(dtype, small[i % kPeriod], exponent, pattern.data() + i * width);
  }
  return pattern;
}

template <class T>
bool read_number(std::string_view word, T& number) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && number > 0;
}

}  // namespace

Result<TimedCell> parse_cell(const std::string& word) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= word.size();) {
    const auto end = std::min(word.find(':', at), word.size());
    parts.push_back(std::string_view(word).substr(at, end - at));
    at = end + 1;
  }
  TimedCell cell;
  const auto* const named = std::ranges::find(kOperations, parts[0]);
  if (named != kOperations.end()) {
    cell.operation = static_cast<Timed>(named - kOperations.begin());
    parts.erase(parts.begin());
  }
  const auto* const type =
      parts.empty() ? kTypes.end()
                    : std::ranges::find_if(kTypes, [&](DType t) { return name_of(t) == parts[0]; });
  if (parts.size() != 4 || type == kTypes.end() || !read_number(parts[1], cell.bytes) ||
      !read_number(parts[2], cell.in_a_row) || !read_number(parts[3], cell.batches) ||
      cell.bytes % size_of(*type) != 0) {
    return failure(
        Errc::usage,
        fmt::format("'{}' is not [OPERATION:]TYPE:BYTES:TIMES:BATCHES, as in f32:1024:100:50",
                    word));
  }
  cell.dtype = *type;
  return cell;
}

std::string_view name_of(Timed operation) {
  return kOperations[static_cast<std::size_t>(operation)];
}

std::string key_of(const TimedCell& cell) {
  const auto key = fmt::format("{}:{}", name_of(cell.dtype), cell.bytes);
  return cell.operation == Timed::all_reduce ? key
                                             : fmt::format("{}:{}", name_of(cell.operation), key);
}

std::string word_of(const TimedCell& cell) {
  return fmt::format("{}:{}:{}", key_of(cell), cell.in_a_row, cell.batches);
}

int most_in_a_row(DType dtype, int ranks) {
  const int doublings = dtype == DType::f16 ? kHalfDoublings : kDoublings;
  return std::max(1, doublings / static_cast<int>(std::bit_width(static_cast<unsigned>(ranks))));
}

std::vector<char> pattern_before(DType dtype, int rank) {
  std::array<std::uint64_t, kPeriod> small{};
  for (std::size_t i = 0; i < kPeriod; ++i) {
    small[i] = 1 + (i + static_cast<std::size_t>(rank)) % kPeriod;
  }
  return repeated(dtype, small, first_exponent(dtype));
}

std::vector<char> pattern_after(DType dtype, int ranks, int sums) {
  std::array<std::uint64_t, kPeriod> small{};
  for (std::size_t i = 0; i < kPeriod; ++i) {
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      small[i] += 1 + (i + rank) % kPeriod;
    }
  }
  int exponent = first_exponent(dtype);
  for (int i = 1; i < sums; ++i) {
    exponent += std::countr_zero(static_cast<unsigned>(ranks));
    for (auto& number : small) {
      number *= is_float(dtype) ? 1 : static_cast<std::uint64_t>(ranks);
    }
  }
  return repeated(dtype, small, exponent);
}

void fill(void* data, std::size_t bytes, const std::vector<char>& pattern) {
  for (std::size_t at = 0; at < bytes; at += pattern.size()) {
    std::memcpy(
        static_cast<char*>(data) + at, pattern.data(), std::min(pattern.size(), bytes - at));
  }
}

bool holds(const void* data, std::size_t bytes, const std::vector<char>& pattern) {
  for (std::size_t at = 0; at < bytes; at += pattern.size()) {
    if (std::memcmp(static_cast<const char*>(data) + at,
                    pattern.data(),
                    std::min(pattern.size(), bytes - at)) != 0) {
      return false;
    }
  }
  return true;
}

double median_of(std::vector<double> times) {
  std::ranges::sort(times);
  const auto middle = times.size() / 2;
  return times.size() % 2 == 1 ? times[middle] : (times[middle - 1] + times[middle]) / 2;
}

}  // namespace muster::bench
