// SPDX-License-Identifier: Apache-2.0
// Converts a launch configuration and an assignment to the processes to start: argv, environment,
// streams. Pure: accesses no files and no variables outside the given Environ.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"
#include "process/values/process_spec.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace muster {

// Facts about the host and this run that the specs depend on.
struct PlanContext {
  std::string run_dir;   // <log_dir>/<run id>_<8 random letters>; empty if no files are written
  std::string hostname;  // for the prefix template
  bool stderr_is_terminal = false;
  // stdout is a pipe, socket or file. Programs buffer their output to these in blocks, so lines of
  // several ranks would be interleaved.
  bool stdout_is_torn = false;
  bool one_sink = false;  // stdout and stderr are the same pipe, socket or file (2>&1)
  bool stdin_is_terminal = false;
  std::string agent_socket = {};  // MUSTER_AGENT; empty without a socket
  // The number of times that workers of this attempt were replaced, by local rank.
  std::map<int, int> replacements = {};
  std::string flights = {};        // directory for flight recorder dumps; empty to request none
  std::string timer_file = {};     // the named pipe for timers; empty without one
  std::string kineto_folder = {};  // for KINETO_IPC_SOCKET_DIR; empty to set nothing
  // The ports on which debugpy listens in workers that run under it, by local rank.
  std::map<int, std::uint16_t> debug_ports = {};
};

// debugpy's default port, for local rank 0. The next local ranks use the next numbers.
inline constexpr std::uint16_t kDebugPort = 5678;

// The local ranks of the workers that run under debugpy (--debug).
[[nodiscard]] std::vector<int> debugged_ranks(const LaunchConfig& config,
                                              const Assignment& assignment);

// One spec for each local rank, in order. Error: usage, if the GPU list is too short for
// --virtual-local-rank.
[[nodiscard]] Result<std::vector<ProcessSpec>> process_specs(const LaunchConfig& config,
                                                             const Environ& environ,
                                                             const Assignment& assignment,
                                                             const PlanContext& context);

// A spare worker of the attempt (--spare-workers), which replaces one of these workers later.
// `specs`: those of all local workers. `number`: of the spare worker, from 1. Error: not_possible,
// if the command lines differ.
[[nodiscard]] Result<ProcessSpec> spare_spec(const std::vector<ProcessSpec>& specs,
                                             const PlanContext& context,
                                             int attempt,
                                             int number);

// True if the user's options route both output streams of all workers through muster.
[[nodiscard]] bool sees_all_output(const LaunchConfig& config);

// error.json in the worker's directory (log_layout.hpp); empty if run_dir is empty.
[[nodiscard]] std::string error_file_path(const PlanContext& context, int attempt, int local_rank);

}  // namespace muster
