// SPDX-License-Identifier: Apache-2.0
// Small files, with bounds: what a worker left may be anything. Used by the agent only; blocking,
// but never for long.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>

namespace muster {

// At most `bytes_max` of a regular file; empty for anything else and for what cannot be read.
[[nodiscard]] std::string read_some(const std::string& path, std::size_t bytes_max);

[[nodiscard]] Result<void> write_file(const std::string& path, std::string_view text);

}  // namespace muster
