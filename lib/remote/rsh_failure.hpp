// SPDX-License-Identifier: Apache-2.0
// Why a machine cannot be reached, on one line: the command, how it ended, and its own last words;
// and whether to try again. Pure.
#pragma once

#include "base/time.hpp"
#include "process/values/exit_status.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// How a remote shell ended that was to carry an agent.
struct RshEnd {
  std::string name;               // of the machine
  std::vector<std::string> argv;  // of the remote shell; the last word is the command over there
  ExitStatus status;
  std::string last_line;   // of its standard error, else what it printed instead of an answer
  bool answered = false;   // the agent was there before
  std::size_t behind = 0;  // machines that it has started, or was to start
};

[[nodiscard]] std::string describe(const RshEnd& end);

// Whether the same command may succeed later: the host is still booting, or a server refuses some
// of many connections. A refused login or a missing muster does not pass.
[[nodiscard]] bool may_pass(const RshEnd& end);

// The pause before attempt `failures` + 1 grows; `spread`, from 0 to 1, keeps hosts that failed
// together from failing together again.
[[nodiscard]] Duration retry_delay(int failures, double spread);

// Far from those of the hosts beside it, and another one for each attempt.
[[nodiscard]] double spread_of(std::size_t host, int failures);

// The last line with something in it, made printable and cut at a sensible length.
[[nodiscard]] std::string last_line_of(std::string_view text);

}  // namespace muster
