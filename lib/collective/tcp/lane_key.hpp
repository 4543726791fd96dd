// SPDX-License-Identifier: Apache-2.0
// LaneKey: what a connection must show to the rank that it reaches. Each rank makes its own, and
// the others read it in the job's store: so whoever knows it may use that store. Value type.
#pragma once

#include "collective/error.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster::collective {

struct LaneKey {
  std::array<std::uint8_t, 16> bytes{};

  // Error: system, where the kernel has no randomness to give.
  [[nodiscard]] static Result<LaneKey> random();

  // 32 hexadecimal digits, as text() writes them.
  [[nodiscard]] static std::optional<LaneKey> parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  // Takes the same time wherever they differ, so that nobody can find the key byte by byte.
  [[nodiscard]] bool matches(const LaneKey& other) const;
};

}  // namespace muster::collective
