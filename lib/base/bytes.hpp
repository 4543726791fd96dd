// SPDX-License-Identifier: Apache-2.0
// Stores and loads little-endian integers in byte buffers. Pure. A caller of load_int must check
// the length first and say so in a comment.
#pragma once

#include <bit>
#include <concepts>
#include <cstring>
#include <string>
#include <string_view>

namespace muster {

static_assert(std::endian::native == std::endian::little, "the wire formats are little-endian");

template <std::integral T>
void append_int(std::string& out, T value) {
  char raw[sizeof(T)];
  std::memcpy(raw, &value, sizeof(T));
  out.append(raw, sizeof(T));
}

// Reads the first sizeof(T) bytes; `bytes` must hold at least that many.
template <std::integral T>
[[nodiscard]] T load_int(std::string_view bytes) {
  T value{};
  // Raw bytes rather than text; the caller has checked the length.
  std::memcpy(
      &value, bytes.data(), sizeof(T));  // NOLINT(bugprone-suspicious-stringview-data-usage)
  return value;
}

}  // namespace muster
