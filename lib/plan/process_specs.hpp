// SPDX-License-Identifier: Apache-2.0
// From a configuration and a round to the processes to start: argv, environment, streams. Pure:
// no file is touched, no variable is read but those of the Environ.
#pragma once

#include "base/environ.hpp"
#include "base/error.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"
#include "process/values/process_spec.hpp"

#include <string>
#include <vector>

namespace muster {

// Facts about the machine and this run that the specs depend on.
struct PlanContext {
  std::string run_dir;   // <log_dir>/<run id>_<8 random>; empty: no files at all
  std::string hostname;  // for the prefix template
  bool stderr_is_terminal = false;
  // A pipe, a socket or a file: programs write to it in blocks, which tear the lines of several.
  bool stdout_is_torn = false;
  bool one_sink = false;  // ... and stderr is the same one (2>&1)
  bool stdin_is_terminal = false;
  std::string agent_socket = {};  // MUSTER_AGENT; empty: there is none
  std::string flights = {};  // where PyTorch's flight recorders are asked; empty: nobody asks them
};

// One spec for each local rank, in order. Errors: usage (a GPU list that is too short for
// --virtual-local-rank).
[[nodiscard]] Result<std::vector<ProcessSpec>> process_specs(const LaunchConfig& config,
                                                             const Environ& environ,
                                                             const Assignment& assignment,
                                                             const PlanContext& context);

// The user asked for streams that muster sees, of all workers.
[[nodiscard]] bool sees_all_output(const LaunchConfig& config);

// <run_dir>/attempt_<n>/<local rank>/error.json; empty where run_dir is.
[[nodiscard]] std::string error_file_path(const PlanContext& context, int attempt, int local_rank);

}  // namespace muster
