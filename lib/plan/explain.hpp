// SPDX-License-Identifier: Apache-2.0
// What --explain=plan and --explain=env print: the processes that would be started. What only the
// meeting of many nodes decides is an example, and said to be one. Pure.
#pragma once

#include "base/environ.hpp"
#include "config/launch_config.hpp"
#include "plan/assignment.hpp"
#include "process/values/process_spec.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Stands for the interface of this node's address, which is known when the nodes meet.
inline constexpr std::string_view kUnknownInterface = "?";

// The name of a socket that is not there yet, in a PlanContext.
inline constexpr std::string_view kUnknownSocket = "?";

// The first start of this node's workers: alone, or among MAX nodes that are like it, at
// --node-rank or else as the first. Without a store's address where that is not known before.
[[nodiscard]] Result<Assignment> example_assignment(const LaunchConfig& config);

// What of that is only an example, as a comment of one line; empty for one node.
[[nodiscard]] std::string describe_example(const LaunchConfig& config,
                                           const Assignment& assignment);

// Per worker: ranks, command line as a shell would need it, the way of its three streams.
[[nodiscard]] std::string describe_plan(const std::vector<ProcessSpec>& specs);

// Per worker: the variables that we set or change over `inherited`; secrets masked.
[[nodiscard]] std::string describe_env(const std::vector<ProcessSpec>& specs,
                                       const Environ& inherited);

}  // namespace muster
