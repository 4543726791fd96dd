// SPDX-License-Identifier: Apache-2.0
// CommandLine: the parsed but unresolved arguments. The grammar is that of Python's argparse, which
// torchrun uses: '-' or '_' in names, unique prefixes, and values attached to short options. All
// arguments after the script belong to the script. Called by main; value type, pure.
#pragma once

#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "config/options/settings.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The requested action. Only `launch` and the explain commands need a script.
enum class Command {
  launch,
  explain_config,
  explain_all,
  explain_plan,
  explain_env,
  help,
  version,
  bash_completion,
  zsh_completion,
  man_page,
  remote_agent,
  measure_node,
};

struct CommandLine {
  Personality personality = Personality::muster;
  Command command = Command::launch;
  std::map<OptionId, std::string> options;  // the last occurrence is used; "1" for a flag;
                                            // for -x all values, one per line
  std::string program;                      // script, module or executable
  std::vector<std::string> args;            // the program's arguments, verbatim
  std::vector<std::string> typed;  // all arguments, for running the command again elsewhere
  bool operator==(const CommandLine&) const = default;
};

// Determined by the base name of argv[0]: torchrun, torch.distributed.launch, or else muster.
[[nodiscard]] Personality personality_of(std::string_view program_path);

// `args` is argv without argv[0]. Errors are of kind usage; main prefixes them with "muster: ".
[[nodiscard]] Result<CommandLine> parse_command_line(Personality personality,
                                                     const std::vector<std::string>& args);

}  // namespace muster
