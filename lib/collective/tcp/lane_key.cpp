// SPDX-License-Identifier: Apache-2.0
#include "collective/tcp/lane_key.hpp"

#include "base/random.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <span>

namespace muster::collective {

Result<LaneKey> LaneKey::random() {
  LaneKey key;
  if (!fill_random(std::as_writable_bytes(std::span(key.bytes)))) {
    return std::unexpected(system_failure("cannot create a random key for connections", errno));
  }
  return key;
}

std::optional<LaneKey> LaneKey::parse(std::string_view text) {
  LaneKey key;
  if (text.size() != 2 * key.bytes.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < key.bytes.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    // from_chars stops at the first character that is not a digit, so check that it read two
    // digits.
    const auto [end, error] = std::from_chars(digits, digits + 2, key.bytes[i], 16);
    if (error != std::errc{} || end != digits + 2) {
      return std::nullopt;
    }
  }
  return key;
}

std::string LaneKey::text() const {
  std::string out;
  for (const std::uint8_t byte : bytes) {
    out += fmt::format("{:02x}", byte);
  }
  return out;
}

bool LaneKey::matches(const LaneKey& other) const {
  // volatile keeps the compiler from ending the loop at the first difference.
  volatile std::uint8_t differences = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    differences = static_cast<std::uint8_t>(differences | (bytes[i] ^ other.bytes[i]));
  }
  return differences == 0;
}

}  // namespace muster::collective
