// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "base/text.hpp"

#include <CLI/CLI.hpp>

#include <array>
#include <map>
#include <utility>

namespace muster {
namespace {

constexpr const char* kHelp = R"(musterctl: looks into stores, names and failure reports

  musterctl store ping HOST:PORT             is a TCPStore server there?
  musterctl store keys HOST:PORT             print the keys, one on each line
  musterctl store count HOST:PORT            print how many keys there are
  musterctl store get HOST:PORT KEY          print a key's value as it is, once it exists
  musterctl store set HOST:PORT KEY VALUE
  musterctl store append HOST:PORT KEY VALUE
  musterctl store add HOST:PORT KEY NUMBER   add to a counter, print the sum
  musterctl store check HOST:PORT KEY…       exit code 0 if all keys are there, else 1
  musterctl store wait HOST:PORT KEY…        until all keys are there
  musterctl store delete HOST:PORT KEY       exit code 0 if it was there, else 1
  musterctl resolve NAME                     addresses of a name, as muster would dial it
  musterctl report DIR                       the failure report (JSON) in a log folder, or in
                                             the newest run below it
  musterctl flight DIR|PID…                  where the ranks are, from their flight recorders: in
                                             a folder, or of a process and those below it

Options:
  --timeout DURATION   how long to wait for an answer: 5, 0.5, 2m [5s]
  --version            print the version and end
  --help, -h           print this and end

Exit codes: 0 done, 1 not there, 2 usage, 69 no answer, 70 internal error.
)";

struct StoreCommand {
  const char* name;
  Command command;
  int args_min;
  int args_max;
};

constexpr int kKeysMax = 1000;

constexpr std::array<StoreCommand, 10> kStoreCommands{{{"add", Command::store_add, 2, 2},
                                                       {"append", Command::store_append, 2, 2},
                                                       {"check", Command::store_check, 1, kKeysMax},
                                                       {"count", Command::store_count, 0, 0},
                                                       {"delete", Command::store_delete, 1, 1},
                                                       {"get", Command::store_get, 1, 1},
                                                       {"keys", Command::store_keys, 0, 0},
                                                       {"ping", Command::store_ping, 0, 0},
                                                       {"set", Command::store_set, 2, 2},
                                                       {"wait", Command::store_wait, 1, kKeysMax}}};

// What CLI11 fills in, before anything is checked by us.
struct Typed {
  bool help = false;
  bool version = false;
  std::string endpoint;
  std::string timeout;
  ControlOptions options;
};

void add_store_commands(CLI::App& app, Typed& typed) {
  auto* store = app.add_subcommand("store");
  store->set_help_flag();
  store->require_subcommand(1);
  store->fallthrough();
  for (const auto& row : kStoreCommands) {
    auto* command = store->add_subcommand(row.name);
    command->set_help_flag();
    command->fallthrough();
    command->add_option("HOST:PORT", typed.endpoint)->required();
    if (row.args_max > 0) {
      command->add_option(row.args_max == 2 ? "KEY VALUE" : "KEY", typed.options.args)
          ->required()
          ->expected(row.args_min, row.args_max);
    }
    command->callback([&typed, which = row.command] { typed.options.command = which; });
  }
}

void add_plain_command(CLI::App& app, Typed& typed, const char* name, Command which) {
  auto* command = app.add_subcommand(name);
  command->set_help_flag();
  command->fallthrough();
  command->add_option(which == Command::report ? "DIR" : "NAME", typed.options.name)->required();
  command->callback([&typed, which] { typed.options.command = which; });
}

void add_flight_command(CLI::App& app, Typed& typed) {
  auto* command = app.add_subcommand("flight");
  command->set_help_flag();
  command->fallthrough();
  command->add_option("DIR|PID", typed.options.args)->required()->expected(1, kKeysMax);
  command->callback([&typed] { typed.options.command = Command::flight; });
}

std::string one_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// The checks that CLI11 does not do.
Result<ControlOptions> finish(Typed typed) {
  auto& options = typed.options;
  if (!typed.timeout.empty()) {
    const auto timeout = parse_duration(typed.timeout);
    if (!timeout) {
      return std::unexpected(timeout.error().during("--timeout"));
    }
    options.timeout = *timeout;
  }
  if (!typed.endpoint.empty()) {
    const auto store = parse_endpoint(typed.endpoint);
    if (!store) {
      return std::unexpected(store.error());
    }
    if (!store->port || *store->port == 0) {
      return failure(Errc::usage, "'" + typed.endpoint + "' needs a port: HOST:PORT");
    }
    options.store = *store;
  }
  if (options.command == Command::store_add && !parse_int(options.args.at(1))) {
    return failure(Errc::usage, "'" + options.args.at(1) + "' is not a whole number");
  }
  return std::move(options);
}

}  // namespace

Result<ControlOptions> parse_control_options(int argc, const char* const* argv) {
  Typed typed;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("--help,-h", typed.help);
  app.add_flag("--version", typed.version);
  app.add_option("--timeout", typed.timeout);
  app.require_subcommand(0, 1);
  add_store_commands(app, typed);
  add_plain_command(app, typed, "resolve", Command::resolve);
  add_plain_command(app, typed, "report", Command::report);
  add_flight_command(app, typed);
  std::string problem;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    problem = one_line(error.what());  // CLI11's own exit codes mean nothing to a user
  }
  if (typed.help || typed.version) {
    typed.options.command = Command::print;
    typed.options.text = typed.help ? kHelp : "musterctl " MUSTER_VERSION "\n";
    return std::move(typed.options);
  }
  if (problem.empty() && app.get_subcommands().empty()) {
    problem = "no command given";
  }
  if (!problem.empty()) {
    return failure(Errc::usage, problem + "; see musterctl --help");
  }
  return finish(std::move(typed));
}

}  // namespace muster
