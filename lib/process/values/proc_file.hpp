// SPDX-License-Identifier: Apache-2.0
// Files of /proc, whose size is not known before they are read. For this room, hang and
// the agent.
#pragma once

#include <cstddef>
#include <string>

namespace muster {

// At most `bytes_max`; empty for what cannot be read.
[[nodiscard]] std::string read_proc_file(const std::string& path, std::size_t bytes_max);

}  // namespace muster
