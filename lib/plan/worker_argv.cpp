// SPDX-License-Identifier: Apache-2.0
#include "plan/worker_argv.hpp"

#include "base/text.hpp"
#include "plan/local_rank.hpp"
#include "plan/macros.hpp"
#include "plan/worker_macros.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

// Without frozen modules, debugpy warns that it may miss breakpoints.
void add_debugger(std::vector<std::string>& argv, std::uint16_t port, bool waits) {
  argv.insert(
      argv.end(),
      {"-Xfrozen_modules=off", "-m", "debugpy", "--listen", fmt::format("127.0.0.1:{}", port)});
  if (waits) {
    argv.emplace_back("--wait-for-client");
  }
}

}  // namespace

std::vector<std::string> worker_argv(const LaunchConfig& config,
                                     const Assignment& assignment,
                                     int local_rank,
                                     std::uint16_t debug_port) {
  const Program& program = config.program;
  const Macros macros = worker_macros(config, assignment, local_rank);
  const MacroSyntax syntax = config.personality == Personality::muster
                                 ? MacroSyntax::braces
                                 : MacroSyntax::python_template;
  std::vector<std::string> argv;
  argv.reserve(program.args.size() + 5);
  if (program.kind != ProgramKind::executable) {
    argv.push_back(program.python);
    argv.emplace_back("-u");
  }
  if (debug_port != 0) {
    add_debugger(argv, debug_port, config.debug_waits);
  }
  if (program.kind == ProgramKind::python_module) {
    argv.emplace_back("-m");
  }
  argv.push_back(expand_macros(program.name, macros, syntax));
  if (!config.local_rank_arg.empty()) {
    argv.push_back(
        fmt::format("--{}={}", config.local_rank_arg, local_rank_of(config, local_rank)));
  }
  for (const std::string& arg : program.args) {
    argv.push_back(expand_macros(arg, macros, syntax));
  }
  return argv;
}

std::vector<std::string> zygote_argv(const LaunchConfig& config, std::string_view source) {
  const Program& program = config.program;
  std::vector<std::string> argv{program.python,
                                "-u",
                                "-c",
                                std::string(source),
                                program.kind == ProgramKind::python_module ? "module" : "script",
                                join(*config.warm, ","),
                                program.name};
  argv.insert(argv.end(), program.args.begin(), program.args.end());
  return argv;
}

}  // namespace muster
