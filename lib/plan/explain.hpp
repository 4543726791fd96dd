// SPDX-License-Identifier: Apache-2.0
// The output of --explain=plan and --explain=env: the processes that muster would start. Values
// that are known only after a multi-node rendezvous are examples and are marked as such. Pure.
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

// An example assignment: the first start of this node's workers, on a single node or on one of MAX
// equal nodes. The node's index is --node-rank, or 0 by default. Omits the store's address if it is
// not known in advance.
[[nodiscard]] Result<Assignment> example_assignment(const LaunchConfig& config);

// A one-line comment that states which parts are only an example; empty for one node.
[[nodiscard]] std::string describe_example(const LaunchConfig& config,
                                           const Assignment& assignment);

// Lists for each worker its ranks, its command line with shell quoting, and its three streams.
[[nodiscard]] std::string describe_plan(const std::vector<ProcessSpec>& specs);

// Lists for each worker the variables that differ from `inherited`; secrets are masked.
[[nodiscard]] std::string describe_env(const std::vector<ProcessSpec>& specs,
                                       const Environ& inherited);

}  // namespace muster
