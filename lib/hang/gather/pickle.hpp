// SPDX-License-Identifier: Apache-2.0
// Pickle: what PyTorch's C++ writes with Python's pickle format (its flight recorder's dumps), as a
// tree of plain values. Nothing is executed and no object is made: any opcode beyond those few is
// refused. Any bytes may come; bounded. Pure.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace muster::hang {

inline constexpr std::size_t kPickleBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kPickleValuesMax = 1'000'000;

struct PickleValue {
  enum class Kind : std::uint8_t { none, boolean, integer, real, text, list, dict };

  Kind kind = Kind::none;
  std::int64_t integer = 0;  // also of a boolean
  double real = 0;
  std::string_view text{};             // in the bytes that were read
  std::vector<std::uint32_t> items{};  // of a list or tuple; keys and values of a dict in turn
};

// Values may be in several places, and a list may hold itself: look no deeper than you must.
class Pickle {
 public:
  // `bytes` must stay. Errors: protocol.
  [[nodiscard]] static Result<Pickle> read(std::string_view bytes);

  [[nodiscard]] const PickleValue& root() const { return values_[root_]; }

  [[nodiscard]] const PickleValue& at(std::uint32_t index) const { return values_[index]; }

  // Of a dict; nullptr: it has no such key, or is none.
  [[nodiscard]] const PickleValue* find(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::vector<PickleValue> values_;
  std::uint32_t root_ = 0;
};

}  // namespace muster::hang
