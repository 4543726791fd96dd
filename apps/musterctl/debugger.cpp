// SPDX-License-Identifier: Apache-2.0
#include "debugger.hpp"

#include "base/endpoint.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace muster {

bool is_python(const std::string& exe) {
  return exe.substr(exe.rfind('/') + 1).starts_with("python");
}

// muster starts "python … -m debugpy --listen ADDRESS …".
std::string debugpy_address(const std::vector<std::string>& argv) {
  const auto module = std::ranges::find(argv, "debugpy");
  if (module == argv.begin() || module == argv.end() || *std::prev(module) != "-m") {
    return "";
  }
  const auto listen = std::find(module, argv.end(), "--listen");
  return listen == argv.end() || std::next(listen) == argv.end() ? "" : *std::next(listen);
}

Result<std::vector<std::string>> pdb_command(const DebuggedProcess& process) {
  const std::string others = fmt::format(
      "Use musterctl debug {0} --native, or start the job with muster --debug={0}", process.rank);
  if (!is_python(process.exe)) {
    return failure(
        Errc::not_possible,
        fmt::format("rank {} does not run Python but {}. Use musterctl debug {} --native",
                    process.rank,
                    process.exe,
                    process.rank));
  }
  if (!process.runs_exe) {
    return failure(Errc::not_possible,
                   fmt::format("{} belongs to another user, so root does not run it. Run musterctl "
                               "debug as the job's user",
                               process.exe));
  }
  if (!process.has_remote_exec) {
    return failure(Errc::not_possible,
                   fmt::format("pdb can attach only to Python 3.14 or later with remote debugging "
                               "enabled, and rank {} runs {}. {}",
                               process.rank,
                               process.exe,
                               others));
  }
  return std::vector<std::string>{
      process.exe, "-I", "-m", "pdb", "-p", std::to_string(process.pid)};
}

std::vector<std::vector<std::string>> native_commands(const DebuggedProcess& process) {
  const std::string pid = std::to_string(process.pid);
  std::vector<std::vector<std::string>> out;
  if (process.uses_cuda) {
    out.push_back({"cuda-gdb", "-q", "-p", pid});
  }
  out.push_back({"gdb", "-q", "-p", pid});
  return out;
}

std::string attach_text(const DebuggedProcess& process, const std::string& host) {
  const std::string address = debugpy_address(process.argv);
  const auto endpoint = parse_endpoint(address);
  const int port = endpoint ? endpoint->port.value_or(0) : 0;
  return fmt::format(
      "rank {0} (pid {1}) runs under debugpy at {2}\n"
      "VS Code, in launch.json:\n"
      "  {{\"name\": \"rank {0}\", \"type\": \"debugpy\", \"request\": \"attach\",\n"
      "   \"connect\": {{\"host\": \"127.0.0.1\", \"port\": {3}}}, \"justMyCode\": false}}\n"
      "from another host, first run there: ssh -N -L {3}:127.0.0.1:{3} {4}\n",
      process.rank,
      process.pid,
      address,
      port,
      host);
}

}  // namespace muster
