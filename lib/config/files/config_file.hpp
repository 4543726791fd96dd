// SPDX-License-Identifier: Apache-2.0
// Parses the TOML file passed with --config. Each line sets one option by its long name, spelled
// with '-' or '_'. The caller reads the text, which is untrusted. Pure.
#pragma once

#include "base/error.hpp"
#include "config/options/settings.hpp"

#include <map>
#include <string>
#include <string_view>

namespace muster {

// Values as typed on a command line; lists are joined with commas. Errors (usage) contain `path`,
// the line, the option and the expected form.
[[nodiscard]] Result<std::map<OptionId, std::string>> parse_config_file(const std::string& text,
                                                                        std::string_view path);

}  // namespace muster
