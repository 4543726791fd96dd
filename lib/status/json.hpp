// SPDX-License-Identifier: Apache-2.0
// Accesses fields of a JSON object. The fields may have any type, because events come from files
// and other programs. For the files in this directory and in musterctl. Pure.
#pragma once

#include "base/json_dump.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

using Json = nlohmann::ordered_json;

// Null if the text is not JSON.
[[nodiscard]] inline Json parse_json(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  return json.is_discarded() ? Json() : json;
}

// Null if the field does not exist or the value is not an object.
[[nodiscard]] inline const Json& field(const Json& object, const char* name) {
  static const Json kNone;
  if (!object.is_object()) {
    return kNone;
  }
  const auto at = object.find(name);
  return at == object.end() ? kNone : *at;
}

[[nodiscard]] inline std::string text_of(const Json& object, const char* name) {
  const Json& value = field(object, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}

// The year 5138. Prevents overflow in calculations with times from a file.
inline constexpr double kSecondsMax = 1e11;

[[nodiscard]] inline double seconds_of(const Json& object, const char* name) {
  const Json& value = field(object, name);
  return value.is_number() ? std::clamp(value.get<double>(), 0.0, kSecondsMax) : 0;
}

[[nodiscard]] inline std::int64_t number_of(const Json& object, const char* name) {
  const Json& value = field(object, name);
  return value.is_number_integer() ? value.get<std::int64_t>() : 0;
}

// For ranks and counts. Values outside of -1 to 2^24 are clamped.
[[nodiscard]] inline int small(std::int64_t number) {
  return static_cast<int>(std::clamp<std::int64_t>(number, -1, 1 << 24));
}

[[nodiscard]] inline int small_of(const Json& object, const char* name) {
  return small(number_of(object, name));
}

[[nodiscard]] inline bool flag_of(const Json& object, const char* name) {
  const Json& value = field(object, name);
  return value.is_boolean() && value.get<bool>();
}

}  // namespace muster
