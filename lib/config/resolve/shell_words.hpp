// SPDX-License-Identifier: Apache-2.0
// A command that somebody typed as one text, cut into words as a POSIX shell would, with quotes and
// backslashes, and nothing more: no variables, no patterns. Pure.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Error: usage, for a quote that is not closed.
[[nodiscard]] Result<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace muster
