// SPDX-License-Identifier: Apache-2.0
// What --explain=plan and --explain=env print: the processes that would be started. Pure.
#pragma once

#include "base/environ.hpp"
#include "process/process_spec.hpp"

#include <string>
#include <vector>

namespace muster {

// Per worker: ranks, command line as a shell would need it, the way of its three streams.
[[nodiscard]] std::string describe_plan(const std::vector<ProcessSpec>& specs);

// Per worker: the variables that we set or change over `inherited`; secrets masked.
[[nodiscard]] std::string describe_env(const std::vector<ProcessSpec>& specs,
                                       const Environ& inherited);

}  // namespace muster
