// SPDX-License-Identifier: Apache-2.0
// Little-endian integers into and out of byte buffers. Pure. Callers of load_int must check the
// length, and state this next to the check.
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
  // Not text; the caller has checked the length.
  std::memcpy(
      &value, bytes.data(), sizeof(T));  // NOLINT(bugprone-suspicious-stringview-data-usage)
  return value;
}

}  // namespace muster
