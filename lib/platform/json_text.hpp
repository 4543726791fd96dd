// SPDX-License-Identifier: Apache-2.0
// JSON in variables, as clouds write it: bounded, and what has another shape is nothing. Pure. The
// one header of this room that includes nlohmann's library.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

inline constexpr std::size_t kJsonMax = 65'536;  // bytes

// None: no JSON, or not an object.
[[nodiscard]] std::optional<nlohmann::json> json_object(std::string_view text);

// Empty, -1 or no texts where there is nothing of that name and kind.
[[nodiscard]] std::string text_in(const nlohmann::json& object, const std::string& name);
[[nodiscard]] int number_in(const nlohmann::json& object, const std::string& name);
[[nodiscard]] std::vector<std::string> texts_in(const nlohmann::json& object,
                                                const std::string& name);

// "[\"a\", \"b\"]"
[[nodiscard]] std::vector<std::string> json_texts(std::string_view text);

}  // namespace muster
