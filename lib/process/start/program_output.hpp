// SPDX-License-Identifier: Apache-2.0
// Runs a small program and waits for its output. Used before the event loop runs; code in the loop
// uses HelperProcess. Called by main. No state.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster {

struct ProgramQuestion {
  std::vector<std::string> argv;         // argv[0] without a slash is looked up in PATH
  std::vector<std::string> environment;  // "NAME=value"
  Duration timeout{};                    // the program is killed after this time
  std::size_t bytes_max = 0;             // the program is killed if it prints more than this
};

// The program's standard output, if it exits with 0 in time. Standard error is discarded. Errors:
// not_found (no such program), timed_out, not_possible, system.
[[nodiscard]] Result<std::string> program_output(const ProgramQuestion& question);

}  // namespace muster
