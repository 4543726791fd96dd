// SPDX-License-Identifier: Apache-2.0
// CommandLine: what was typed, nothing resolved. The grammar is that of Python's argparse, as
// torchrun's users know it: both spellings, unique prefixes, joined short values, and everything
// after the script belongs to the script. Called by main; value type, pure.
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

// What the user wants from this run. All but `launch` and the explanations need no script.
enum class Command {
  launch,
  explain_config,
  explain_plan,
  explain_env,
  help,
  version,
  bash_completion,
  zsh_completion,
  man_page,
  remote_agent,
};

struct CommandLine {
  Personality personality = Personality::muster;
  Command command = Command::launch;
  std::map<OptionId, std::string> options;  // the last one typed wins; "1" for a flag;
                                            // -x: all, a line each
  std::string program;                      // script, module or executable
  std::vector<std::string> args;            // the program's own, verbatim
  std::vector<std::string> typed;           // all of it, to run the same somewhere else
  bool operator==(const CommandLine&) const = default;
};

// From argv[0]: a file name of "torchrun" or "torch.distributed.launch", else muster.
[[nodiscard]] Personality personality_of(std::string_view program_path);

// `args` is argv without argv[0]. Errors are of kind usage; main prints "muster: " before them.
[[nodiscard]] Result<CommandLine> parse_command_line(Personality personality,
                                                     const std::vector<std::string>& args);

}  // namespace muster
