// SPDX-License-Identifier: Apache-2.0
// The process of a rank that runs the user's program. Stateless.
#pragma once

#include <string>

#include <sys/types.h>

namespace muster {

// The path of the process's program; empty if /proc does not show it.
[[nodiscard]] std::string program_of(pid_t pid);

// A worker may be a shell script that runs the program. The worker's first process that runs
// Python, else the worker itself.
[[nodiscard]] pid_t program_process(pid_t worker);

}  // namespace muster
