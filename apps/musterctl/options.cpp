// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "base/text.hpp"

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

namespace muster {
namespace {

constexpr const char* kHelp = R"(musterctl: inspect and control muster jobs, stores and reports

  musterctl status [DIR]     show the state of the job on this host, or list several jobs
  musterctl top              show the state live until the job ends or q is pressed
  musterctl events [DIR]     print all events of the job, one per line; --follow: wait for new ones
  musterctl timeline [DIR]   draw rounds, nodes and workers as an image: --svg FILE (-: stdout)
  musterctl report [DIR]     print how the job ended, and what its time was used for (goodput)
  musterctl stacks [RANK]…   print the stacks of the workers on this host, grouped if identical
  musterctl debug RANK       attach a debugger to a rank on this host: pdb, or gdb with --native
  musterctl profile [RANK]…  record a trace of the ranks on this host: --steps N or --seconds S
  musterctl flights [DIR]    show each rank's position in its collectives and which ranks are behind
  musterctl check            measure and compare all nodes of the job, as muster --check does
  musterctl stop             stop the job: send SIGTERM to its launcher and wait for it to exit
  musterctl url              print the URL of the job's HTTP server, including its key
  musterctl drain NODE       stop this host's node with SIGTERM; it leaves the multi-node job
  musterctl forget NODE      declare a lost node dead, so that the job stops waiting for it

musterctl finds the jobs on this host and queries each over its socket, which accepts only the owner
and root. It queries all launchers on the host in parallel and reports those that do not answer
within 1 s (--timeout changes the limit, except for stop and drain). stop --pid also stops a job
whose launcher does not answer. With DIR, a log directory or a parent of log directories, musterctl
reads the files there instead, even after the job has ended.
In a multi-node job, each node's launcher reports what that node sees. stop stops the workers on
this node; whether the other nodes continue depends on --nnodes. drain does the same, but only if
there are other nodes. To drain a node on another host, run drain on that host.
Use forget if the job waits for a node that died while disconnected and was restarted without
its saved state (--state-dir). Run forget on the node that leads the job. If NODE is still running,
two copies of the job then run, so make sure that its host was rebooted or is off.

stacks needs py-spy (Python) and eu-stack (other code), and root or kernel.yama.ptrace_scope=0.
stacks pauses a process for at most a few milliseconds. flights reads the flight recorders of
muster's collective library and, for jobs with --hang-timeout, those of PyTorch. For flights, DIR is
the directory that MUSTER_COLLECTIVE_FLIGHT_DIR names, or a directory with PyTorch's dumps. flights
also accepts the pids of ranks or of their launchers.
debug opens pdb if the rank runs Python 3.14 or later. For a rank that runs under debugpy (muster
--debug), it prints how an IDE attaches. --native starts gdb, or cuda-gdb if the rank uses CUDA.
Hang timeouts pause while a debugger is attached. pdb and gdb have the permissions of stacks.

profile records with PyTorch's profiler if the job was started with KINETO_USE_DAEMON=1, otherwise
with py-spy, which has the permissions of stacks. It writes rank_N.json (for Perfetto) or
rank_N.speedscope.json for each rank, and merged.json or merged.speedscope.json.

check compares limits, /dev/shm, the disk of the logs, clocks, GPUs and the links between nodes, and
exits with 1 if it finds a defect. It takes about 1 s. On each node it costs a few milliseconds of
CPU time, nvidia-smi runs if it is installed, and each measured link (log2(N) of them) is busy for
at most 60 ms and 32 MiB, which costs as much CPU time on both nodes. CPU speed and memory bandwidth
are not measured while workers run: the workers would change these figures, and the measurement
would disturb the workers.

  --pid PID            select the job by the pid of its launcher (or of its child job-agent)
  --run-id ID          select the job by its --rdzv-id
  --endpoint URL       select the job whose --http server is at http://HOST:PORT; for status,
                       top, events, timeline and report
  --http-key FILE      with --endpoint: the file with that job's key, as in muster --http-key.
                       Not needed for your own jobs on this host
  --json               print JSON: the status object; events as in events.jsonl; check, report,
                       stacks, profile and flights as one object
  --steps N            profile: record N optimizer steps
  --seconds S          profile: record for this long, on all ranks at the same time: 5, 0.5, 2m
  --out DIR            profile: folder for the traces [./muster_profile_DATE_TIME]
  --merge DIR          profile: only merge the traces in DIR, which may come from several hosts
  --follow             events: continue until the job ends
  --svg FILE           timeline: output file of the image

  musterctl store ping HOST:PORT             check that a TCPStore server answers
  musterctl store keys HOST:PORT             print the keys, one per line
  musterctl store count HOST:PORT            print the number of keys
  musterctl store get HOST:PORT KEY          wait for a key and print its raw value
  musterctl store set HOST:PORT KEY VALUE
  musterctl store append HOST:PORT KEY VALUE
  musterctl store add HOST:PORT KEY NUMBER   add to a counter and print the sum
  musterctl store check HOST:PORT KEY…       exit with 0 if all keys exist, else 1
  musterctl store wait HOST:PORT KEY…        wait until all keys exist
  musterctl store delete HOST:PORT KEY       exit with 0 if the key existed, else 1
  musterctl resolve NAME                     print the addresses to which muster resolves a name

Options:
  --timeout DURATION   how long to wait for an answer: 5, 0.5, 2m [1 s for the launchers on this
                       host, then 5 s, for check 10 s, for profile 5 min, or twice --seconds and
                       90 s]; with stop and drain, for the exit [no limit]
  --version            print the version
  --help, -h           print this help

Exit codes: 0 success, 1 not found or a defect, 2 usage error, 69 no answer, 70 internal error,
74 output could not be written.
)";

struct StoreCommand {
  const char* name;
  Command command;
  int args_min;
  int args_max;
};

constexpr int kKeysMax = 1000;

// The limits of one trace. A second of training makes about 10 MB.
constexpr std::int64_t kStepsMax = 100'000;
constexpr Duration kRecordMin = std::chrono::milliseconds(1);
constexpr Duration kRecordMax = std::chrono::hours(1);

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

// Values filled in by CLI11, not yet validated.
struct Typed {
  bool help = false;
  bool version = false;
  std::string steps;
  std::string seconds;
  std::string endpoint;  // address of a store
  std::string timeout;
  std::string pid;
  std::string url;
  std::vector<std::string> ranks;
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

CLI::App* add_plain_command(CLI::App& app, Typed& typed, const char* name, Command which) {
  auto* command = app.add_subcommand(name);
  command->set_help_flag();
  command->fallthrough();
  command->callback([&typed, which] { typed.options.command = which; });
  return command;
}

void add_job_options(CLI::App& command, Typed& typed, bool from_elsewhere) {
  command.add_option("--pid", typed.pid);
  command.add_option("--run-id", typed.options.run_id);
  if (from_elsewhere) {
    command.add_option("--endpoint", typed.url);
    command.add_option("--http-key", typed.options.http_key_file);
  }
}

void add_job_commands(CLI::App& app, Typed& typed) {
  auto* status = add_plain_command(app, typed, "status", Command::status);
  auto* events = add_plain_command(app, typed, "events", Command::events);
  auto* timeline = add_plain_command(app, typed, "timeline", Command::timeline);
  auto* report = add_plain_command(app, typed, "report", Command::report);
  for (CLI::App* command : {status, events, timeline, report}) {
    command->add_option("DIR", typed.options.name);
  }
  for (CLI::App* command : {status, events, timeline, report}) {
    add_job_options(*command, typed, true);
  }
  add_job_options(*add_plain_command(app, typed, "top", Command::top), typed, true);
  add_job_options(*add_plain_command(app, typed, "stop", Command::stop), typed, false);
  add_job_options(*add_plain_command(app, typed, "url", Command::url), typed, false);
  auto* check = add_plain_command(app, typed, "check", Command::check);
  auto* drain = add_plain_command(app, typed, "drain", Command::drain);
  auto* forget = add_plain_command(app, typed, "forget", Command::forget);
  for (CLI::App* command : {drain, forget}) {
    command->add_option("NODE", typed.options.node)->required();
  }
  auto* stacks = add_plain_command(app, typed, "stacks", Command::stacks);
  stacks->add_option("RANK", typed.ranks)->expected(0, kKeysMax);
  auto* debug = add_plain_command(app, typed, "debug", Command::debug);
  debug->add_option("RANK", typed.ranks)->required()->expected(1);
  debug->add_flag("--native", typed.options.native);
  auto* profile = add_plain_command(app, typed, "profile", Command::profile);
  profile->add_option("RANK", typed.ranks)->expected(0, kKeysMax);
  profile->add_option("--steps", typed.steps);
  profile->add_option("--seconds", typed.seconds);
  profile->add_option("--out", typed.options.out);
  profile->add_option("--merge", typed.options.merge);
  auto* flights = add_plain_command(app, typed, "flights", Command::flights);
  flights->add_option("DIR|PID", typed.options.args)->expected(0, kKeysMax);
  for (CLI::App* command : {check, drain, forget, stacks, debug, profile, flights}) {
    add_job_options(*command, typed, false);
  }
  for (CLI::App* command : {check, stacks, profile, flights}) {
    command->add_flag("--json", typed.options.json);
  }
  status->add_flag("--json", typed.options.json);
  report->add_flag("--json", typed.options.json);
  events->add_flag("--json", typed.options.json);
  events->add_flag("--follow", typed.options.follow);
  timeline->add_option("--svg", typed.options.svg)->required();
}

std::string one_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

constexpr std::string_view kHttp = "http://";

// "http://HOST:PORT", with or without a trailing slash.
Result<Endpoint> parse_url(const std::string& url) {
  if (url.find('?') != std::string::npos) {
    return failure(Errc::usage,
                   "omit ?key=...: other users can see command lines. Your own jobs on this host "
                   "need no key; for other jobs use --http-key FILE");
  }
  std::string text = url.starts_with(kHttp) ? url.substr(kHttp.size()) : url;
  if (text.ends_with('/')) {
    text.pop_back();
  }
  auto out = parse_endpoint(text);
  if (out && (!out->port || *out->port == 0)) {
    return failure(Errc::usage, "'" + url + "' needs a port: http://HOST:PORT");
  }
  return out;
}

Result<void> finish_job_options(const Typed& typed, ControlOptions& options) {
  if (!typed.pid.empty()) {
    options.pid = parse_int(typed.pid);
    if (!options.pid || *options.pid <= 0) {
      return failure(Errc::usage, "--pid: '" + typed.pid + "' is not a pid");
    }
  }
  if (!typed.url.empty()) {
    const auto endpoint = parse_url(typed.url);
    if (!endpoint) {
      return std::unexpected(endpoint.error().during("--endpoint"));
    }
    options.endpoint = *endpoint;
  }
  for (const std::string& text : typed.ranks) {
    const auto rank = parse_int(text);
    if (!rank || *rank < 0 || *rank > std::numeric_limits<int>::max()) {
      return failure(Errc::usage, "'" + text + "' is not a rank");
    }
    options.ranks.push_back(static_cast<int>(*rank));
  }
  if (options.command == Command::flights && !options.args.empty() &&
      (options.pid || !options.run_id.empty())) {
    return failure(Errc::usage, "directories and pids cannot be combined with --pid and --run-id");
  }
  if (!options.http_key_file.empty() && !options.endpoint) {
    return failure(Errc::usage, "--http-key needs --endpoint");
  }
  const int chosen = (options.name.empty() ? 0 : 1) + (options.endpoint ? 1 : 0) +
                     (options.pid || !options.run_id.empty() ? 1 : 0);
  if (chosen > 1) {
    return failure(Errc::usage,
                   "a directory, --endpoint, and --pid or --run-id cannot be combined");
  }
  return {};
}

Result<void> finish_profile_options(const Typed& typed, ControlOptions& options) {
  const bool has_one = typed.steps.empty() != typed.seconds.empty();
  if (options.command != Command::profile ||
      (!options.merge.empty() && typed.steps.empty() && typed.seconds.empty())) {
    return {};
  }
  if (!has_one || !options.merge.empty()) {
    return failure(Errc::usage, "profile needs --steps, --seconds, or --merge");
  }
  if (!typed.steps.empty()) {
    options.steps = parse_int(typed.steps).value_or(0);
    if (options.steps <= 0 || options.steps > kStepsMax) {
      return failure(
          Errc::usage,
          fmt::format("--steps: '{}' is not a number from 1 to {}", typed.steps, kStepsMax));
    }
    return {};
  }
  const auto seconds = parse_duration(typed.seconds);
  if (!seconds) {
    return std::unexpected(seconds.error().during("--seconds"));
  }
  if (*seconds < kRecordMin || *seconds > kRecordMax) {
    return failure(Errc::usage,
                   fmt::format("--seconds: '{}' is not from {} to {}",
                               typed.seconds,
                               describe(kRecordMin),
                               describe(kRecordMax)));
  }
  options.seconds = *seconds;
  return {};
}

// Validates values beyond what CLI11 checks.
Result<ControlOptions> finish(Typed typed) {
  auto& options = typed.options;
  if (!typed.timeout.empty()) {
    const auto timeout = parse_duration(typed.timeout);
    if (!timeout) {
      return std::unexpected(timeout.error().during("--timeout"));
    }
    options.timeout = *timeout;
    options.timeout_given = true;
  }
  MUSTER_RETURN_IF_ERROR(finish_profile_options(typed, options));
  if (options.command != Command::resolve) {
    MUSTER_RETURN_IF_ERROR(finish_job_options(typed, options));
  }
  if (!typed.endpoint.empty()) {
    const auto store = parse_endpoint(typed.endpoint);
    MUSTER_RETURN_IF_ERROR(store);
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

// The command that the user probably meant, such as status for "stats": the command with the
// longest common prefix.
std::string meant_command(const CLI::App& app, std::string_view typed) {
  constexpr std::size_t kAlike = 3;
  std::string best;
  std::size_t alike = kAlike - 1;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    const std::string& name = command->get_name();
    const auto same =
        static_cast<std::size_t>(std::ranges::mismatch(typed, name).in1 - typed.begin());
    if (same > alike) {
      alike = same;
      best = name;
    }
  }
  return best.empty() ? "" : fmt::format(" (did you mean {}?)", best);
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
  add_job_commands(app, typed);
  add_plain_command(app, typed, "resolve", Command::resolve)
      ->add_option("NAME", typed.options.name)
      ->required();
  std::string problem;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    problem = one_line(error.what());  // CLI11's own exit codes are not useful to users
  }
  if (typed.help || typed.version) {
    typed.options.command = Command::print;
    typed.options.text = typed.help ? kHelp : "musterctl " MUSTER_VERSION "\n";
    return std::move(typed.options);
  }
  if (app.get_subcommands().empty() && argc > 1 && *argv[1] != '-') {
    problem = fmt::format("unknown command {}{}", argv[1], meant_command(app, argv[1]));
  } else if (problem.empty() && app.get_subcommands().empty()) {
    problem = "no command given";
  }
  if (!problem.empty()) {
    return failure(Errc::usage, problem + "; see musterctl --help");
  }
  return finish(std::move(typed));
}

}  // namespace muster
