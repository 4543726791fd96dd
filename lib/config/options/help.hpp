// SPDX-License-Identifier: Apache-2.0
// Texts generated from the option table: --help, the manual page and shell completions. Called by
// main and, for installed files, by the build. Pure.
#pragma once

#include "config/launch_config.hpp"

#include <string>

namespace muster {

// At most two screens long. `width` is the terminal's width (80 without a terminal).
[[nodiscard]] std::string help_text(Personality personality, int width);

// The muster(1) page in roff.
[[nodiscard]] std::string man_page();

[[nodiscard]] std::string bash_completion();
[[nodiscard]] std::string zsh_completion();

}  // namespace muster
