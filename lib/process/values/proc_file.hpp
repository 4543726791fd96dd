// SPDX-License-Identifier: Apache-2.0
// Reads files in /proc, whose size is unknown in advance. Used here, in hang/ and in the agent.
#pragma once

#include <cstddef>
#include <string>

namespace muster {

// Reads at most `bytes_max` bytes; empty if the file cannot be read.
[[nodiscard]] std::string read_proc_file(const std::string& path, std::size_t bytes_max);

}  // namespace muster
