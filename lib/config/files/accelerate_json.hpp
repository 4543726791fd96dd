// SPDX-License-Identifier: Apache-2.0
// Converts a JSON file passed with --accelerate-config to the YAML lines that accelerate_config.cpp
// parses. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// None if the text is not a JSON object or is too large. Keys are sorted, so line numbers do not
// match the file.
[[nodiscard]] std::optional<std::string> yaml_of_json(std::string_view text);

}  // namespace muster
