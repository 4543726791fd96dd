// SPDX-License-Identifier: Apache-2.0
// Checks whether a file's file system allows execution. Stateless.
#pragma once

#include <string>

namespace muster {

// True if the file has execute permission but its file system is mounted noexec. False if unknown.
[[nodiscard]] bool is_noexec_program(const std::string& path);

}  // namespace muster
