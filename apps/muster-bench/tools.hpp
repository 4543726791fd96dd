// SPDX-License-Identifier: Apache-2.0
// The single tools of muster-bench, for tuning one thing by hand: echo, load, stream, storm, crowd.
// Each prints one line. Called by main.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::bench {

// Adds the sub-commands; each runs when it was parsed and leaves its exit code in `exit_code`.
void add_tools(CLI::App& app, int& exit_code);

}  // namespace muster::bench
