// SPDX-License-Identifier: Apache-2.0
// Parses JSON in variables set by clouds. The text may have at most kJsonMax bytes, and JSON with
// an unexpected structure is ignored. Pure. The only header in this directory that includes
// nlohmann's library.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::size_t kJsonMax = 65'536;  // bytes

// None if the text is not JSON or not an object.
[[nodiscard]] std::optional<nlohmann::json> json_object(std::string_view text);

// Return the member with this name. If it is missing or has another type, return an empty string,
// -1 or an empty list.
[[nodiscard]] std::string text_in(const nlohmann::json& object, const std::string& name);
[[nodiscard]] int number_in(const nlohmann::json& object, const std::string& name);
[[nodiscard]] std::vector<std::string> texts_in(const nlohmann::json& object,
                                                const std::string& name);

// "[\"a\", \"b\"]"
[[nodiscard]] std::vector<std::string> json_texts(std::string_view text);

}  // namespace muster
