// SPDX-License-Identifier: Apache-2.0
// Small files and the last words on a stream, with bounds: what a worker left may be anything, and
// a console may be slow or closed. Used by the agent only; blocking, but never for long.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <string>
#include <string_view>

namespace muster {

// At most `bytes_max` of a regular file; empty for anything else and for what cannot be read.
[[nodiscard]] std::string read_some(const std::string& path, std::size_t bytes_max);

[[nodiscard]] Result<void> write_file(const std::string& path, std::string_view text);

// As much as the descriptor takes within `patience`; errors are nobody's business any more.
void write_last_words(int fd, std::string_view text, Duration patience);

}  // namespace muster
