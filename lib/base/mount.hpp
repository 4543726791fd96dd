// SPDX-License-Identifier: Apache-2.0
// Whether programs on a file's file system can be executed. Stateless.
#pragma once

#include <string>

namespace muster {

// Whether the file has a permission to be executed and its file system is mounted noexec. False
// where that cannot be found out.
[[nodiscard]] bool is_noexec_program(const std::string& path);

}  // namespace muster
