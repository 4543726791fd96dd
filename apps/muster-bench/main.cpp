// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/tools.hpp"

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app("muster-bench: measures muster beside its peers");
  app.require_subcommand(1);
  int exit_code = 0;
  muster::bench::add_tools(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
