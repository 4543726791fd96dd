// SPDX-License-Identifier: Apache-2.0
// Finds the paths that execvp would try for a program, and explains why a program could not be
// started. spawn uses the former before the child exists and the latter after it has failed. The
// report also uses it to show the path of the Python that ran.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The paths to try, in order: the name itself if it contains a slash, else one for each directory
// of the PATH in `environment` ("NAME=value" entries).
[[nodiscard]] std::vector<std::string> program_paths(const std::string& name,
                                                     const std::vector<std::string>& environment);

// The error for a program that execve refused with `errno_value`; `path` is the refused path.
[[nodiscard]] Error exec_error(const std::string& name, const std::string& path, int errno_value);

}  // namespace muster
