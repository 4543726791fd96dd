// SPDX-License-Identifier: Apache-2.0
// Reads a small file into a string. Used by the readers in this directory.
#pragma once

#include "base/error.hpp"

#include <string>

namespace muster {

// Errors: system; usage, for a file that is too large to be a configuration file (such as a
// mistyped --config=/dev/zero).
[[nodiscard]] Result<std::string> read_text_file(const std::string& path);

}  // namespace muster
