// SPDX-License-Identifier: Apache-2.0
// muster, the launcher: parses and resolves the command line, runs the job and reports the result.
// Exit codes are listed in apps/README.md.
#include "agent/agent.hpp"
#include "agent/failures/job_result.hpp"
#include "agent/sinks/open_record.hpp"
#include "agent/workers/run_dir.hpp"
#include "base/environ.hpp"
#include "base/fd.hpp"
#include "base/logger.hpp"
#include "base/printable.hpp"
#include "base/stream_writer.hpp"
#include "base/text.hpp"
#include "check/probe/measure_node.hpp"
#include "config/options/command_line.hpp"
#include "config/options/explain.hpp"
#include "config/options/help.hpp"
#include "config/resolve/resolve.hpp"
#include "machine/linux_machine.hpp"
#include "muster/version.hpp"
#include "plan/explain.hpp"
#include "plan/process_specs.hpp"
#include "process/guard/guard.hpp"
#include "process/guard/lease_timer.hpp"
#include "process/output/console_sink.hpp"
#include "process/start/inherited_state.hpp"
#include "process/start/program_output.hpp"
#include "remote/hosts_launcher.hpp"
#include "remote/launch_plan.hpp"
#include "remote/remote_agent.hpp"
#include "rendezvous/node/node_sockets.hpp"
#include "trust/token_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

constexpr int kWidthWithoutTerminal = 80;
constexpr Duration kPagerTimeout = std::chrono::hours(1);
constexpr std::size_t kMessageLineBytesMax = 2000;  // messages contain user-chosen names

// The timeout is long, because the reader may be a pager. EPIPE is not an error: the reader
// exited.
int print(std::string_view text) {
  if (write_within(1, text, kPagerTimeout) || errno == EPIPE) {
    return 0;
  }
  logger().print("cannot write standard output: " + errno_text(errno));
  return kOutputLostCode;
}

int refuse(const Error& error) {
  logger().print(printable_lines(error.message, kMessageLineBytesMax));
  return exit_code_of(error);
}

void warn(const std::vector<std::string>& warnings) {
  const LogBatch batch;
  for (const std::string& warning : warnings) {
    log_warning(printable_lines(warning, kMessageLineBytesMax));
  }
}

int terminal_width(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  return kWidthWithoutTerminal;
}

// True for a pipe, socket or regular file. Programs usually write blocks to these, not lines.
bool is_torn(int fd) {
  struct stat facts {};

  return ::fstat(fd, &facts) == 0 &&
         (S_ISFIFO(facts.st_mode) || S_ISSOCK(facts.st_mode) || S_ISREG(facts.st_mode));
}

bool is_public(int fd) {
  struct stat facts {};

  return ::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
         (facts.st_mode & (S_IRGRP | S_IROTH)) != 0;
}

AgentSetup setup_of(const LaunchConfig& config, const Environ& environ, const Machine& machine) {
  AgentSetup setup;
  setup.config = config;
  setup.environ = environ;
  setup.hostname = machine.hostname();
  setup.version = version_number();
  setup.random = machine.random_hex();
  setup.stderr_is_terminal = ::isatty(2) == 1;
  setup.stderr_is_public = is_public(2);
  setup.stdin_is_terminal = machine.stdin_is_terminal();
  setup.stdout_is_torn = is_torn(1);
  setup.one_sink = setup.stdout_is_torn && same_place(1, 2);
  setup.stderr_columns = static_cast<std::size_t>(terminal_width(2));
  return setup;
}

// Prints the processes that would be started. The run folder, the port and the result of the
// rendezvous are placeholders, because --explain creates no files and opens no sockets.
int explain_plan(const CommandLine& line, const AgentSetup& setup, const Environ& environ) {
  const LaunchConfig& config = setup.config;
  PlanContext context{RunDir::place_of(config, setup.environ, "........"),
                      setup.hostname,
                      setup.stderr_is_terminal,
                      setup.stdout_is_torn,
                      setup.one_sink,
                      setup.stdin_is_terminal,
                      std::string(kUnknownSocket)};
  if (config.logs_disabled) {
    context.run_dir.clear();
  }
  const auto assignment = example_assignment(config);
  if (!assignment) {
    return refuse(assignment.error());
  }
  for (const int local_rank : debugged_ranks(config, *assignment)) {
    context.debug_ports[local_rank] = static_cast<std::uint16_t>(kDebugPort + local_rank);
  }
  const auto specs = process_specs(config, setup.environ, *assignment, context);
  if (!specs) {
    return refuse(specs.error());
  }
  const bool plan = line.command == Command::explain_plan;
  return print(describe_example(config, *assignment) +
               (plan ? describe_plan(*specs) : describe_env(*specs, environ)));
}

// State shared by the guard and the agent of a multi-node job, created before the fork.
struct Shared {
  NodeSockets sockets;
  LeaseTimer lease;
  std::shared_ptr<const RoundRecord> record;
};

Result<std::optional<Shared>> share(const AgentSetup& setup) {
  const LaunchConfig& config = setup.config;
  if (!many_nodes(config)) {
    return std::nullopt;
  }
  auto sockets = make_node_sockets();
  MUSTER_RETURN_IF_ERROR(sockets);
  auto lease = LeaseTimer::make(config.rendezvous.lease);
  MUSTER_RETURN_IF_ERROR(lease);
  return Shared{std::move(*sockets), std::move(*lease), open_record(setup)};
}

// The scheduler may also send the signal of --preempt-signal to the workers, which would kill them.
// The agent therefore ignores it, and the workers inherit this. The guard still receives it.
// Signals that stop a job are not ignored.
void ignore_in_workers(const LaunchConfig& config) {
  const auto& stops = config.signals_to_handle;
  if (config.preempt_signal && std::ranges::find(stops, *config.preempt_signal) == stops.end()) {
    static_cast<void>(std::signal(*config.preempt_signal, SIG_IGN));
  }
}

// The worker would fail only after the other workers have started.
Result<void> check_debugger(const AgentSetup& setup) {
  constexpr Duration kTimeout = std::chrono::seconds(30);  // a network file system may be slow
  constexpr std::size_t kBytesMax = std::size_t{64} * 1024;
  const std::string& python = setup.config.program.python;
  if (!setup.config.debug_ranks ||
      program_output(
          {{python, "-c", "import debugpy"}, setup.environ.to_block(), kTimeout, kBytesMax})) {
    return {};
  }
  return failure(Errc::usage,
                 "--debug: " + python + " cannot import debugpy. Install it: " + python +
                     " -m pip install debugpy");
}

// The agent's request for another agent, which the guard reads when the agent has exited.
class RejoinRequest {
 public:
  explicit RejoinRequest(PipeEnds pipe) : pipe_(std::move(pipe)) {}

  void make() const { [[maybe_unused]] const auto written = ::write(pipe_.write.get(), "r", 1); }

  [[nodiscard]] bool was_made() const {
    char byte = 0;
    return ::read(pipe_.read.get(), &byte, 1) == 1;
  }

 private:
  PipeEnds pipe_;
};

Result<RejoinRequest> make_rejoin_request() {
  auto pipe = make_pipe();
  MUSTER_RETURN_IF_ERROR(pipe);
  MUSTER_RETURN_IF_ERROR(set_nonblocking(pipe->read.get()));
  return RejoinRequest(std::move(*pipe));
}

// Returns in the guard and in the agent.
int launch_agent(const AgentSetup& setup, const RejoinRequest& again, int argc, char** argv) {
  const pid_t guard = ::getpid();
  auto shared = share(setup);
  if (!shared) {
    return refuse(shared.error());
  }
  const LeaseTimer* lease = *shared ? &(*shared)->lease : nullptr;
  std::vector<int> relayed = setup.config.signals_to_handle;
  relayed.push_back(SIGWINCH);
  if (setup.config.preempt_signal) {
    relayed.push_back(*setup.config.preempt_signal);
  }
  const int code = run_guarded(
      [&](GuardLink link) {
        hide_command_line(argc, argv);
        ignore_in_workers(setup.config);
        std::optional<SharedWithGuard> means;
        if (*shared) {
          means = SharedWithGuard{std::move((*shared)->sockets), lease, (*shared)->record};
        }
        const AgentEnd end = run_agent(setup, std::move(link), std::move(means));
        if (end.rejoins) {
          again.make();
        }
        return end.exit_code;
      },
      relayed,
      lease,
      setup.config.shutdown_timeout);
  if (::getpid() == guard && setup.config.log_dir.empty() && !setup.config.logs_disabled) {
    RunDir::remove_left(RunDir::place_of(setup.config, setup.environ, setup.random));
  }
  return code;
}

// If a spare takes the place of this node, its agent exits, and the guard starts another one, which
// joins as a new node. The pause lets the other nodes form a round with the spare first.
int launch(AgentSetup setup, const Machine& machine, int argc, char** argv) {
  constexpr int kRejoinPauseMs = 1000;
  if (const auto checked = check_debugger(setup); !checked) {
    return refuse(checked.error());
  }
  const pid_t guard = ::getpid();
  while (true) {
    const auto again = make_rejoin_request();
    if (!again) {
      return refuse(again.error());
    }
    const int code = launch_agent(setup, *again, argc, argv);
    if (::getpid() != guard || !again->was_made()) {
      return code;
    }
    ::poll(nullptr, 0, kRejoinPauseMs);
    setup.rejoins = true;
    setup.random = machine.random_hex();
  }
}

// Replaces this process with the program that starts muster on each node, passing our environment.
int replace_by(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  restore_inherited_state();
  ::execvp(argv.front(), argv.data());
  const int why = errno;
  return refuse(Error{why == ENOENT ? Errc::not_found : Errc::not_possible,
                      "cannot run " + words.front() + ": " + errno_text(why)});
}

// The secret to send to the hosts in --hosts. The hosts might not share a home directory.
Result<std::string> token_to_send(const HostsRequest& request) {
  if (!request.sends_token) {
    return "";
  }
  if (request.token_file.empty()) {
    return make_token();
  }
  auto token = read_token(token_file_source(request.token_file));
  MUSTER_RETURN_IF_ERROR(token);
  return std::move(token->secret);
}

// --hosts: starts agents on other hosts, in a separate program.
int launch_hosts(const HostsSetup& setup, int argc, char** argv) {
  return run_guarded([&](GuardLink link) {
    hide_command_line(argc, argv);
    return run_hosts(setup, std::move(link));
  });
}

// Runs nvidia-smi, because a static program cannot load the driver's library.
std::string ask_smi(const Environ& environ) {
  constexpr Duration kTimeout = std::chrono::seconds(20);  // nvidia-smi may initialise all GPUs
  constexpr std::size_t kBytesMax = std::size_t{256} * 1024;
  for (const char* name : {"nvidia-smi", "/usr/lib/wsl/lib/nvidia-smi"}) {
    auto text = program_output({{name, "-L"}, environ.to_block(), kTimeout, kBytesMax});
    if (text) {
      return std::move(*text);
    }
  }
  return "";
}

int resolve_and_run(const CommandLine& line, const Environ& environ, int argc, char** argv) {
  const LinuxMachine machine("", [&environ] { return ask_smi(environ); });
  const auto resolved = resolve(line, environ, machine);
  if (!resolved) {
    return refuse(resolved.error());
  }
  if (!resolved->command.empty()) {
    return replace_by(resolved->command);
  }
  logger().set_level(resolved->config.log_level);
  warn(resolved->warnings);
  if (resolved->hosts && line.command != Command::launch) {
    return print(describe_hosts(*resolved->hosts));
  }
  if (resolved->hosts) {
    const auto token = token_to_send(*resolved->hosts);
    return token ? launch_hosts({*resolved->hosts, environ, version_number(), *token}, argc, argv)
                 : refuse(token.error());
  }
  if (line.command == Command::explain_config || line.command == Command::explain_all) {
    return print(describe_config(
        resolved->config,
        line.command == Command::explain_all ? Explained::all : Explained::changed));
  }
  const AgentSetup setup = setup_of(resolved->config, resolved->environ, machine);
  if (line.command != Command::launch) {
    return explain_plan(line, setup, environ);
  }
  return launch(setup, machine, argc, argv);
}

int dispatch(const CommandLine& line, const Environ& environ, int argc, char** argv) {
  switch (line.command) {
    case Command::help:
      return print(help_text(line.personality, terminal_width(1)));
    case Command::version:
      return print(version_text());
    case Command::bash_completion:
      return print(bash_completion());
    case Command::zsh_completion:
      return print(zsh_completion());
    case Command::man_page:
      return print(man_page());
    case Command::remote_agent:
      return run_remote_agent({environ, version_number(), LinuxMachine().own_path()});
    case Command::measure_node:
      return check::run_measure_node(environ);
    case Command::launch:
    case Command::explain_config:
    case Command::explain_all:
    case Command::explain_plan:
    case Command::explain_env:
      break;
  }
  return resolve_and_run(line, environ, argc, argv);
}

int run(int argc, char** argv, char** environment) {
  const Environ environ = Environ::from_block(environment);
  const std::vector<std::string> args(argv + (argc > 0 ? 1 : 0), argv + argc);
  const auto line = parse_command_line(personality_of(argc > 0 ? argv[0] : ""), args);
  if (!line) {
    return refuse(line.error());
  }
  return dispatch(*line, environ, argc, argv);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv, char** environment) {
  muster::prepare_process();
  return muster::run(argc, argv, environment);
}
