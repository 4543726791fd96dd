// SPDX-License-Identifier: Apache-2.0
// Reads and writes small files with size limits, because a worker may write files of any size. Used
// by the agent only; blocking, but only briefly.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>

namespace muster {

// At most `bytes_max` bytes of a regular file; empty for other file types and for unreadable files.
[[nodiscard]] std::string read_some(const std::string& path, std::size_t bytes_max);

// Creates a named pipe for this user; an existing one is reused.
[[nodiscard]] Result<void> make_pipe(const std::string& path);

[[nodiscard]] Result<void> write_file(const std::string& path, std::string_view text);

}  // namespace muster
