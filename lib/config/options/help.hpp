// SPDX-License-Identifier: Apache-2.0
// The texts made from the table of settings: --help, the manual page, shell completions. Called by
// main and, for the files to install, by the build. Pure.
#pragma once

#include "config/launch_config.hpp"

#include <string>

namespace muster {

// At most two screens. `width` is the terminal's (80 where there is none).
[[nodiscard]] std::string help_text(Personality personality, int width);

// roff for muster(1).
[[nodiscard]] std::string man_page();

[[nodiscard]] std::string bash_completion();
[[nodiscard]] std::string zsh_completion();

}  // namespace muster
