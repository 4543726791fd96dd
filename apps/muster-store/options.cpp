// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "base/text.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace muster {
namespace {

constexpr const char* kHelp = R"(muster-store: a TCPStore server on its own

  muster-store                                 serve 127.0.0.1:29500
  muster-store --bind :: --port 0 --port-file p
                                               all addresses, any free port, its number in file p

Workers of every PyTorch from 1.13 on can use it: TCPStore("127.0.0.1", 29500, is_master=False).
There is no authentication: whoever can connect can read and write all keys.

Options:
  --bind ADDRESS     numeric address to listen on; :: is all of IPv4 and IPv6 [127.0.0.1]
  --port PORT        0 takes any free port [29500]
  --port-file FILE   write the port to FILE once it accepts connections
  --version          print the version and end
  --help, -h         print this and end

It prints nothing while all is well, and ends with exit code 0 at SIGTERM or SIGINT.
)";

std::string one_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  while (text.ends_with('.')) {
    text.pop_back();
  }
  return text;
}

}  // namespace

Result<StoreOptions> parse_store_options(int argc, const char* const* argv) {
  StoreOptions options;
  bool help = false;
  bool version = false;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("--help,-h", help);
  app.add_flag("--version", version);
  app.add_option("--bind", options.bind);
  app.add_option("--port", options.port);
  app.add_option("--port-file", options.port_file);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11's own exit codes mean nothing to a user: ours is 2 for all of them.
    return failure(Errc::usage, one_line(error.what()) + "; see muster-store --help");
  }
  if (help) {
    options.print = kHelp;
  } else if (version) {
    options.print = "muster-store " MUSTER_VERSION "\n";
  }
  return options;
}

}  // namespace muster
