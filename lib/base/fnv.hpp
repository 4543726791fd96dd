// SPDX-License-Identifier: Apache-2.0
// FNV-1a, 64 bits: the same bytes have the same hash on every machine. It detects accidental
// differences but does not protect against attacks. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace muster {

inline constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325;

// `sum` is the hash of the preceding bytes.
[[nodiscard]] constexpr std::uint64_t fnv_1a(std::string_view bytes,
                                             std::uint64_t sum = kFnvBasis) {
  for (const char byte : bytes) {
    sum = (sum ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return sum;
}

}  // namespace muster
