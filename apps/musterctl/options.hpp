// SPDX-License-Identifier: Apache-2.0
// The parsed command line of musterctl. Parsing has no side effects. Used by main.
#pragma once

#include "base/endpoint.hpp"
#include "base/error.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace muster {

enum class Command {
  check,
  debug,
  drain,
  events,
  flights,
  forget,
  profile,
  print,  // --help or --version: `text`
  resolve,
  report,
  stacks,
  status,
  stop,
  store_add,
  store_append,
  store_check,
  store_count,
  store_delete,
  store_get,
  store_keys,
  store_ping,
  store_set,
  store_wait,
  timeline,
  top,
  url,
};

inline constexpr Duration kFindTimeout = std::chrono::seconds(1);

struct ControlOptions {
  Command command = Command::print;
  std::string text;  // for Command::print
  std::string name;  // host name for resolve; directory for report, status …, or empty
  Endpoint store;    // server address for the store commands
  std::vector<std::string> args;  // store commands: key, value; flights: directories, pids
  Duration timeout = std::chrono::seconds(5);
  bool timeout_given = false;

  // Timeout for querying all launchers on this host. For stop and drain, --timeout instead limits
  // the wait for the job's exit.
  [[nodiscard]] Duration time_to_find() const {
    const bool is_for_end = command == Command::stop || command == Command::drain;
    return timeout_given && !is_for_end ? timeout : kFindTimeout;
  }

  // Options that select a running job.
  std::optional<std::int64_t> pid;   // pid of its launcher
  std::string http_key_file;         // --http-key
  std::string run_id;                // --rdzv-id of the job
  std::optional<Endpoint> endpoint;  // address of its --http server
  std::string node;                  // node name for drain and forget
  std::vector<int> ranks;            // for stacks and profile, all ranks if empty; for debug, one
  bool native = false;               // debug: gdb
  std::int64_t steps = 0;            // profile: --steps; 0 if not given
  Duration seconds{};                // profile: --seconds; 0 if not given
  std::string out;                   // profile: folder for the traces
  std::string merge;                 // profile: only merge the traces in this folder
  bool json = false;
  bool follow = false;
  std::string svg;  // timeline: output file
};

// On error, returns a usage error with a one-line message that names the option.
[[nodiscard]] Result<ControlOptions> parse_control_options(int argc, const char* const* argv);

}  // namespace muster
