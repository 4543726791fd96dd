// SPDX-License-Identifier: Apache-2.0
// debug: attaches a debugger to a rank. This process becomes the debugger. It keeps its connection
// to the launcher, which pauses hang timeouts until the connection is closed.
#include "base/clock.hpp"
#include "base/environ.hpp"
#include "choose_job.hpp"
#include "commands.hpp"
#include "debugger.hpp"
#include "inspect.hpp"
#include "local_job.hpp"
#include "process/start/program_output.hpp"
#include "rank_process.hpp"
#include "status/debug_path.hpp"
#include "status/json.hpp"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace muster {
namespace {

// -- facts ------------------------------------------------------------------------------------

std::vector<std::string> words_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  std::vector<std::string> out;
  for (std::string word; std::getline(file, word, '\0');) {
    out.push_back(word);
  }
  return out;
}

// Root runs only its own programs, because the job's user chose this one.
bool is_own_program(const std::string& path) {
  struct stat facts {};

  return ::stat(path.c_str(), &facts) == 0 && (::geteuid() != 0 || facts.st_uid == 0);
}

bool maps_cuda(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/maps", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.find("/libcuda.so") != std::string::npos) {
      return true;
    }
  }
  return false;
}

bool has_remote_exec(const std::string& python) {
  constexpr Duration kTimeout = std::chrono::seconds(30);  // a network file system may be slow
  constexpr std::size_t kBytesMax = 1024;
  const auto answer =
      program_output({{python, "-I", "-c", "import sys; print(sys.is_remote_debug_enabled())"},
                      Environ::from_block(::environ).to_block(),
                      kTimeout,
                      kBytesMax});
  return answer && *answer == "True\n";
}

DebuggedProcess facts_of(const LocalWorker& worker) {
  DebuggedProcess out{.rank = worker.rank, .pid = program_process(worker.pid)};
  out.exe = program_of(out.pid);
  out.argv = words_of(out.pid);
  out.runs_exe = is_own_program(out.exe);
  out.uses_cuda = maps_cuda(out.pid);
  return out;
}

// -- becoming the debugger --------------------------------------------------------------------

// The connection stays open across exec, so it lasts as long as the debugger.
Result<HttpStream> announce(const FoundJob& job, const ControlOptions& options) {
  auto held = job.source.ask(debug_path(options.ranks.front()), steady_now() + options.timeout);
  if (held && ::fcntl(held->fd(), F_SETFD, 0) != 0) {
    return std::unexpected(system_error("cannot keep the connection to the launcher", errno));
  }
  return held;
}

// Returns only if no command can be run.
Error become(std::vector<std::vector<std::string>> commands) {
  static_cast<void>(std::fflush(stdout));
  for (std::vector<std::string>& words : commands) {
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    argv.push_back(nullptr);
    ::execvp(argv.front(), argv.data());
  }
  const int why = errno;
  return {Errc::not_possible,
          fmt::format("cannot run {}: {}", commands.back().front(), errno_text(why))};
}

}  // namespace

Result<int> run_debug(const ControlOptions& options) {
  const auto job = find_ranks(options);
  MUSTER_RETURN_IF_ERROR(job);
  DebuggedProcess process = facts_of(job->workers.front());
  if (!options.native && !debugpy_address(process.argv).empty()) {
    print(attach_text(process, text_of(parse_json(job->job.status), "node")));
    return 0;
  }
  std::vector<std::vector<std::string>> commands = native_commands(process);
  if (!options.native) {
    process.has_remote_exec =
        is_python(process.exe) && process.runs_exe && has_remote_exec(process.exe);
    auto command = pdb_command(process);
    MUSTER_RETURN_IF_ERROR(command);
    commands = {std::move(*command)};
  }
  if (!may_trace()) {
    return failure(Errc::not_possible,
                   fmt::format("kernel.yama.ptrace_scope allows only root to attach. Run sudo "
                               "musterctl debug, or start the job with muster --debug={}",
                               process.rank));
  }
  const auto held = announce(job->job, options);
  MUSTER_RETURN_IF_ERROR(held);
  return std::unexpected(become(std::move(commands)));
}

}  // namespace muster
