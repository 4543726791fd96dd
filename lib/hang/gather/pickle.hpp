// SPDX-License-Identifier: Apache-2.0
// Pickle: parses the pickles that PyTorch's C++ code writes (dumps of its flight recorder) into a
// tree of plain values. It executes nothing and creates no objects, and it rejects all opcodes
// except the few that PyTorch uses. Input is untrusted and limited in size. Pure.
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
  std::int64_t integer = 0;  // also used for a boolean
  double real = 0;
  std::string_view text{};  // points into the input
  std::vector<std::uint32_t>
      items{};  // elements of a list or tuple; alternating keys and values of a dict
};

// Values may be shared and a list may contain itself, so callers must not descend deeper than
// necessary.
class Pickle {
 public:
  // `bytes` must outlive the result. Error: protocol.
  [[nodiscard]] static Result<Pickle> read(std::string_view bytes);

  [[nodiscard]] const PickleValue& root() const { return values_[root_]; }

  [[nodiscard]] const PickleValue& at(std::uint32_t index) const { return values_[index]; }

  // The value of a key. nullptr if `dict` does not have the key or is not a dict.
  [[nodiscard]] const PickleValue* find(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleReader;
  std::vector<PickleValue> values_;
  std::uint32_t root_ = 0;
};

}  // namespace muster::hang
