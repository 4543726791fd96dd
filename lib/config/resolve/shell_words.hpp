// SPDX-License-Identifier: Apache-2.0
// Splits a command into words like a POSIX shell. Supports quotes and backslashes, but not
// variables or patterns. Pure.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Error: usage, if a quote is not closed.
[[nodiscard]] Result<std::vector<std::string>> shell_words(std::string_view text);

}  // namespace muster
