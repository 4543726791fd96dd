// SPDX-License-Identifier: Apache-2.0
// LaneKey: the secret that a connecting rank must present. Each rank creates its own key and
// publishes it in the job's store, so knowing the key proves access to that store. Value type.
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

  // Error: system, if the kernel provides no random bytes.
  [[nodiscard]] static Result<LaneKey> random();

  // Parses 32 hexadecimal digits, as written by text().
  [[nodiscard]] static std::optional<LaneKey> parse(std::string_view text);
  [[nodiscard]] std::string text() const;

  // Constant-time comparison, to prevent timing attacks.
  [[nodiscard]] bool matches(const LaneKey& other) const;
};

}  // namespace muster::collective
