// SPDX-License-Identifier: Apache-2.0
// Finds the paths that execvp would try for a program, and explains why a program could not be
// started. spawn looks up the paths before it creates the child, and asks for the explanation if
// the start fails. The report uses the paths to show which Python ran.
#pragma once

#include "base/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The paths to try, in order: the name itself if it contains a slash, or else one path for each
// directory in the PATH of `environment` ("NAME=value" entries).
[[nodiscard]] std::vector<std::string> program_paths(const std::string& name,
                                                     const std::vector<std::string>& environment);

// The error for a program that execve failed to run with `errno_value`; `path` is the path that was
// passed to execve.
[[nodiscard]] Error exec_error(const std::string& name, const std::string& path, int errno_value);

}  // namespace muster
