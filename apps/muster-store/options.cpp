// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "base/text.hpp"
#include "io/user_admission.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <string_view>

namespace muster {
namespace {

constexpr const char* kHelp = R"(muster-store: a standalone TCPStore server

  muster-store                                 serve 127.0.0.1:29500
  muster-store --bind :: --port 0 --port-file p
                                               listen on all addresses and any free port,
                                               and write the port to file p

It works with PyTorch 1.13 and later: TCPStore("127.0.0.1", 29500, is_master=False).
On this host, only the user who started the server and root can connect. There is no authentication
for other hosts: with a --bind address that they can reach, any client can read and write all keys.

Options:
  --bind ADDRESS     numeric address to listen on; :: means all IPv4 and IPv6 addresses [127.0.0.1]
  --port PORT        port to listen on; 0 selects a free port [29500]
  --port-file FILE   write the port to FILE once the server accepts connections
  --uid UID|NAME     user on this host that may connect [the current user]
  --open             allow all users on this host
  --version          print the version
  --help, -h         print this help

The server prints only warnings and errors. On SIGTERM or SIGINT it exits with code 0.
)";

constexpr std::array<std::string_view, 7> kNames{
    "--bind", "--port", "--port-file", "--uid", "--open", "--version", "--help"};

// Returns an error for an unknown option, with the nearest known option as a suggestion.
Error unknown(std::string_view word) {
  const auto nearest = std::ranges::min_element(
      kNames, {}, [word](std::string_view name) { return edit_distance(word, name); });
  std::string message = "unknown option " + shell_quoted(word);
  if (edit_distance(word, *nearest) <= 2) {
    message += " - did you mean " + std::string(*nearest) + "?";
  }
  return Error{Errc::usage, message + "; see muster-store --help"};
}

Error explain(const CLI::App& app, const CLI::ParseError& error) {
  const auto extras = app.remaining();
  if (!extras.empty()) {
    const auto first =
        std::ranges::find_if(extras, [](const std::string& word) { return word.starts_with('-'); });
    return unknown(first == extras.end() ? extras.front() : *first);
  }
  return Error{Errc::usage, std::string(error.what()) + "; see muster-store --help"};
}

Result<std::uint16_t> parse_port(const std::string& text) {
  const auto port = parse_int(text);
  if (!port || *port < 0 || *port > 65535) {
    return failure(Errc::usage,
                   "--port must be a number from 0 to 65535, not " + shell_quoted(text));
  }
  return static_cast<std::uint16_t>(*port);
}

// User names come from /etc/passwd, because a static program cannot use NSS modules.
std::string passwd_text() {
  std::ifstream file("/etc/passwd");
  return {std::istreambuf_iterator<char>(file), {}};
}

Result<uid_t> chosen_user(const std::string& text, bool is_open) {
  if (is_open) {
    return failure(Errc::usage, "--uid and --open cannot be combined");
  }
  auto user = parse_user(text, passwd_text());
  return user ? user : std::unexpected(user.error().during("--uid"));
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
  std::string port = std::to_string(options.port);
  app.add_option("--port", port);
  app.add_option("--port-file", options.port_file);
  std::string user;
  app.add_option("--uid", user);
  app.add_flag("--open", options.open);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    // CLI11's own exit codes are not useful to users, so all of them become 2.
    return std::unexpected(explain(app, error));
  }
  const auto number = parse_port(port);
  MUSTER_RETURN_IF_ERROR(number);
  options.port = *number;
  if (app.count("--uid") > 0) {
    const auto found = chosen_user(user, options.open);
    MUSTER_RETURN_IF_ERROR(found);
    options.user = *found;
  }
  if (help) {
    options.print = kHelp;
  } else if (version) {
    options.print = "muster-store " MUSTER_VERSION "\n";
  }
  return options;
}

}  // namespace muster
