// SPDX-License-Identifier: Apache-2.0
// What a small program prints, waited for: a question that is asked before there is a loop
// (HelperProcess is for later). Called by main. No state.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace muster {

struct ProgramQuestion {
  std::vector<std::string> argv;         // argv[0] without a slash is searched in PATH
  std::vector<std::string> environment;  // "NAME=value"
  Duration timeout{};                    // after it the program is killed
  std::size_t bytes_max = 0;             // and so it is when it has printed more
};

// Its standard output, if it ends with 0 by then. Its standard error is discarded. Errors:
// not_found (no such program), timed_out, not_possible, system.
[[nodiscard]] Result<std::string> program_output(const ProgramQuestion& question);

}  // namespace muster
