// SPDX-License-Identifier: Apache-2.0
// The tools of muster-bench: echo, load, stream, storm, hold, delays, crowd, ports, record, scrape,
// time. Each prints its figures as one JSON object on its last line. Called by main.
#pragma once

#include <CLI/CLI.hpp>

namespace muster::bench {

// Adds the subcommands. Each runs after parsing and stores its exit code in `exit_code`.
void add_tools(CLI::App& app, int& exit_code);

}  // namespace muster::bench
