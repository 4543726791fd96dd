// SPDX-License-Identifier: Apache-2.0
// Detects workers that failed only because they lost the connection to another worker. The other
// worker's failure is then the cause. Matches the exception text against known messages from
// PyTorch's backends, NCCL, Python and our own library. Used by the supervisor's shell. Pure.
#pragma once

#include "agent/failures/failure.hpp"

#include <string_view>

namespace muster {

// `text` is the text of one exception, or the last lines of a program without exceptions.
[[nodiscard]] bool says_lost_connection(std::string_view text);

// Checks the error file and the end of stderr. False if any exception of the worker reports another
// problem. Such an exception is the cause even if the worker's last exception reports a lost
// connection: a `finally` block that closes a process group may raise a lost-connection exception
// afterwards.
[[nodiscard]] bool is_lost_connection(const WorkerFailure& failure);

}  // namespace muster
