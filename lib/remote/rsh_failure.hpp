// SPDX-License-Identifier: Apache-2.0
// Describes in one line why a host is unreachable (the command, its exit status and its last
// message), and decides whether to retry. Pure.
#pragma once

#include "base/time.hpp"
#include "process/values/exit_status.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// How the remote shell of an agent exited.
struct RshEnd {
  std::string name;  // host name
  std::vector<std::string>
      argv;  // remote shell's command line; the remote command is the last word
  ExitStatus status;
  std::string last_line;   // last line of stderr, else of unexpected stdout
  bool answered = false;   // the agent has answered before
  std::size_t behind = 0;  // number of hosts that it has started or should have started
};

[[nodiscard]] std::string describe(const RshEnd& end);

// True if the failure is transient: the host may still be booting, or a server may refuse some of
// many simultaneous connections. A rejected login and a missing muster binary are permanent.
[[nodiscard]] bool may_pass(const RshEnd& end);

// The delay before attempt `failures` + 1. It grows with each failure. `spread`, from 0 to 1, keeps
// hosts that failed together from retrying together.
[[nodiscard]] Duration retry_delay(int failures, double spread);

// A spread for retry_delay(). It differs widely between adjacent hosts and between attempts.
[[nodiscard]] double spread_of(std::size_t host, int failures);

// The last non-empty line, made printable and truncated.
[[nodiscard]] std::string last_line_of(std::string_view text);

}  // namespace muster
