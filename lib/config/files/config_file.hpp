// SPDX-License-Identifier: Apache-2.0
// The file of --config: TOML, one option a line, by its long name in either spelling. The text is
// read by the caller and may be anything. Pure.
#pragma once

#include "base/error.hpp"
#include "config/options/settings.hpp"

#include <map>
#include <string>
#include <string_view>

namespace muster {

// Values as they would be typed; a list is joined with commas. Errors (usage) name
// `path`, the line, the option, and what to write.
[[nodiscard]] Result<std::map<OptionId, std::string>> parse_config_file(const std::string& text,
                                                                        std::string_view path);

}  // namespace muster
