// SPDX-License-Identifier: Apache-2.0
// A small file as one text. For the thin readers of this room.
#pragma once

#include "base/error.hpp"

#include <string>

namespace muster {

// Errors: system; usage for a file that is longer than any setting (a mistyped --config=/dev/zero).
[[nodiscard]] Result<std::string> read_text_file(const std::string& path);

}  // namespace muster
