// SPDX-License-Identifier: Apache-2.0
// Whether a worker failed only because it lost the connection to another one: then that other
// worker is the cause. Recognized by the text of the exception; a table of what PyTorch's back
// ends, NCCL, Python and our own library say. Used by the supervisor's shell. Pure.
#pragma once

#include "agent/failures/failure.hpp"

#include <string_view>

namespace muster {

// One exception's text, or the last lines of a program that has none.
[[nodiscard]] bool says_lost_connection(std::string_view text);

// From the error file and the end of stderr. False where any exception of the worker is about
// something else: `finally` blocks raise a second one while they close a group.
[[nodiscard]] bool is_lost_connection(const WorkerFailure& failure);

}  // namespace muster
