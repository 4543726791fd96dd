// SPDX-License-Identifier: Apache-2.0
// Where a program may lie, as execvp searches it, and why it could not be started. Used
// by spawn, the first part before the child exists, the second after it failed; and by the report,
// which shows the path of the Python that ran.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The paths to try, in order: the name itself where it has a slash, else one for each folder of
// the PATH among `environment` ("NAME=value" entries).
[[nodiscard]] std::vector<std::string> program_paths(const std::string& name,
                                                     const std::vector<std::string>& environment);

// The error for a program that execve refused with `errno_value`; `path` is the one it was about.
[[nodiscard]] Error exec_error(const std::string& name, const std::string& path, int errno_value);

}  // namespace muster
