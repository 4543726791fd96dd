// SPDX-License-Identifier: Apache-2.0
// muster, the launcher: what was typed, what it means, run it, say how it ended. Exit codes are in
// apps/README.md.
#include "agent/agent.hpp"
#include "agent/files.hpp"
#include "agent/job_result.hpp"
#include "agent/run_dir.hpp"
#include "base/environ.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "config/command_line.hpp"
#include "config/explain.hpp"
#include "config/help.hpp"
#include "config/resolve.hpp"
#include "host/linux_machine.hpp"
#include "muster/version.hpp"
#include "plan/explain.hpp"
#include "plan/process_specs.hpp"
#include "process/guard.hpp"
#include "process/lease_timer.hpp"
#include "rendezvous/node/node_sockets.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/ioctl.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kWidthWithoutTerminal = 80;
constexpr Duration kConsolePatience = std::chrono::hours(1);

// Our output may go through a pager.
int print(std::string_view text) {
  write_last_words(1, text, kConsolePatience);
  return 0;
}

int refuse(const Error& error) {
  write_last_words(2, "muster: " + error.message + "\n", kConsolePatience);
  return exit_code_of(error);
}

int terminal_width(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return kWidthWithoutTerminal;
}

AgentSetup setup_of(const LaunchConfig& config, const Environ& environ, const Machine& machine) {
  AgentSetup setup;
  setup.config = config;
  setup.environ = environ;
  setup.hostname = machine.hostname();
  setup.version = version_number();
  setup.random = machine.random_hex();
  setup.stderr_is_terminal = ::isatty(2) == 1;
  setup.stderr_columns = static_cast<std::size_t>(terminal_width(2));
  return setup;
}

// The processes that would be started; the run folder, the port and what many nodes agree on are
// made up, since nothing is made and no socket is opened.
int explain_plan(const CommandLine& line, const AgentSetup& setup) {
  const LaunchConfig& config = setup.config;
  PlanSite site{RunDir::place_of(config, setup.environ, "........"),
                setup.hostname,
                setup.stderr_is_terminal};
  if (config.logs_disabled) {
    site.run_dir.clear();
  }
  const auto assignment = example_assignment(config);
  if (!assignment) {
    return refuse(assignment.error());
  }
  const auto specs = process_specs(config, setup.environ, *assignment, site);
  if (!specs) {
    return refuse(specs.error());
  }
  const bool plan = line.errand == Errand::explain_plan;
  return print(describe_example(config, *assignment) +
               (plan ? describe_plan(*specs) : describe_env(*specs, setup.environ)));
}

// What guard and agent of a job of many nodes share: sockets and a timer from before the fork.
struct Shared {
  NodeSockets sockets;
  LeaseTimer lease;
};

Result<std::optional<Shared>> share(const LaunchConfig& config) {
  if (!many_nodes(config)) {
    return std::nullopt;
  }
  auto sockets = make_node_sockets();
  if (!sockets) {
    return std::unexpected(sockets.error());
  }
  auto lease = LeaseTimer::make();
  if (!lease) {
    return std::unexpected(lease.error());
  }
  return Shared{std::move(*sockets), std::move(*lease)};
}

int launch(const AgentSetup& setup, int argc, char** argv) {
  const pid_t guard = ::getpid();
  auto shared = share(setup.config);
  if (!shared) {
    return refuse(shared.error());
  }
  const LeaseTimer* lease = *shared ? &(*shared)->lease : nullptr;
  const int code = run_guarded(
      [&](UniqueFd link) {
        hide_command_line(argc, argv);
        std::optional<MeetingMeans> means;
        if (*shared) {
          means = MeetingMeans{std::move((*shared)->sockets), lease};
        }
        return run_agent(setup, std::move(link), std::move(means));
      },
      setup.config.signals_to_handle,
      lease);
  if (::getpid() == guard && setup.config.log_dir.empty() && !setup.config.logs_disabled) {
    RunDir::remove_empty(RunDir::place_of(setup.config, setup.environ, setup.random));
  }
  return code;
}

int resolve_and_run(const CommandLine& line, const Environ& environ, int argc, char** argv) {
  const LinuxMachine machine;
  const auto resolved = resolve(line, environ, machine);
  if (!resolved) {
    return refuse(resolved.error());
  }
  for (const std::string& warning : resolved->warnings) {
    Log("muster", resolved->config.log_level).warning(warning);
  }
  if (line.errand == Errand::explain_config) {
    return print(describe_config(resolved->config));
  }
  const AgentSetup setup = setup_of(resolved->config, environ, machine);
  if (line.errand != Errand::launch) {
    return explain_plan(line, setup);
  }
  return launch(setup, argc, argv);
}

int obey(const CommandLine& line, const Environ& environ, int argc, char** argv) {
  switch (line.errand) {
    case Errand::help:
      return print(help_text(line.personality, terminal_width(1)));
    case Errand::version:
      return print(version_text());
    case Errand::bash_completion:
      return print(bash_completion());
    case Errand::zsh_completion:
      return print(zsh_completion());
    case Errand::man_page:
      return print(man_page());
    case Errand::launch:
    case Errand::explain_config:
    case Errand::explain_plan:
    case Errand::explain_env:
      break;
  }
  return resolve_and_run(line, environ, argc, argv);
}

int run(int argc, char** argv, char** environment) {
  const Environ environ = Environ::from_block(environment);
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto line = parse_command_line(personality_of(argc > 0 ? argv[0] : ""), words);
  if (!line) {
    return refuse(line.error());
  }
  return obey(*line, environ, argc, argv);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv, char** environment) {
  muster::block_signals();
  return muster::run(argc, argv, environment);
}
