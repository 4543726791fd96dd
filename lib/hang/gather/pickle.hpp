// SPDX-License-Identifier: Apache-2.0
// Pickle: reads the pickles that PyTorch's C++ writes (dumps of its flight recorder) into a tree of
// plain values. Executes nothing and creates no objects; rejects all opcodes beyond the few that
// PyTorch uses. Input is untrusted and bounded. Pure.
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
  std::int64_t integer = 0;  // also for a boolean
  double real = 0;
  std::string_view text{};             // points into the input
  std::vector<std::uint32_t> items{};  // of a list or tuple; alternating keys and values of a dict
};

// Values may be shared, and a list may contain itself, so do not descend deeper than necessary.
class Pickle {
 public:
  // `bytes` must outlive the result. Errors: protocol.
  [[nodiscard]] static Result<Pickle> read(std::string_view bytes);

  [[nodiscard]] const PickleValue& root() const { return values_[root_]; }

  [[nodiscard]] const PickleValue& at(std::uint32_t index) const { return values_[index]; }

  // The value of a key; nullptr if `dict` has no such key or is not a dict.
  [[nodiscard]] const PickleValue* find(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::vector<PickleValue> values_;
  std::uint32_t root_ = 0;
};

}  // namespace muster::hang
