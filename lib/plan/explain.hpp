// SPDX-License-Identifier: Apache-2.0
// The output of --explain=plan and --explain=env: the processes that would be started. Values that
// only the rendezvous of many nodes determines are an example and marked as such. Pure.
#pragma once

#include "base/environ.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"
#include "process/values/process_spec.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Placeholder for the interface with this node's address, which only the rendezvous determines.
inline constexpr std::string_view kUnknownInterface = "?";

// Placeholder for a socket that does not exist yet, in a PlanContext.
inline constexpr std::string_view kUnknownSocket = "?";

// The first start of this node's workers: a single node, or one of MAX equal nodes, with
// --node-rank or else as the first. Omits the store's address if it is not known in advance.
[[nodiscard]] Result<Assignment> example_assignment(const LaunchConfig& config);

// One comment line that states which parts are only an example; empty for one node.
[[nodiscard]] std::string describe_example(const LaunchConfig& config,
                                           const Assignment& assignment);

// For each worker: ranks, the command line with shell quoting, its three streams.
[[nodiscard]] std::string describe_plan(const std::vector<ProcessSpec>& specs);

// For each worker: the variables that differ from `inherited`; secrets are masked.
[[nodiscard]] std::string describe_env(const std::vector<ProcessSpec>& specs,
                                       const Environ& inherited);

}  // namespace muster
