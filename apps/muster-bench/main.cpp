// SPDX-License-Identifier: Apache-2.0
// muster-bench: the performance-critical parts of the measurements. measure/ calls it.
#include "apps/muster-bench/tools.hpp"

#include <sys/resource.h>

namespace {

// The storm needs one file descriptor per client.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

}  // namespace

int main(int argc, char** argv) {
  raise_descriptor_limit();
  CLI::App app("muster-bench: load generators and timers for scripts/bench");
  app.require_subcommand(1);
  int exit_code = 0;
  muster::bench::add_tools(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
