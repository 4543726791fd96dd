// SPDX-License-Identifier: Apache-2.0
// Finds the jobs of this machine by the Unix sockets of their launchers. All launchers are queried
// at the same time, so a silent one does not delay the others. Stateless.
#pragma once

#include "base/time.hpp"
#include "job_source.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

struct FoundJob {
  JobSource source;
  std::string status;      // JSON; empty: no complete answer in time
  pid_t launcher_pid = 0;  // of a silent one: the agent's parent; 0: in another pid namespace
  pid_t agent_pid = 0;     // as the kernel reports it

  [[nodiscard]] bool is_silent() const { return status.empty(); }
};

// Jobs that this user may query, sorted by the pid of the launcher. `timeout` is for all together.
[[nodiscard]] std::vector<FoundJob> find_jobs(Duration timeout);

}  // namespace muster
