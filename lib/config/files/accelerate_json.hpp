// SPDX-License-Identifier: Apache-2.0
// The file of --accelerate-config where it is JSON, as the lines of YAML that accelerate_config.cpp
// reads. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

// None: not a JSON object, or a large one. Keys are sorted, so lines are no longer those of the
// file.
[[nodiscard]] std::optional<std::string> yaml_of_json(std::string_view text);

}  // namespace muster
