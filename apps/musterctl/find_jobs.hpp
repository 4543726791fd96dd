// SPDX-License-Identifier: Apache-2.0
// Finds the jobs on this host through the Unix sockets of their launchers. All launchers are
// queried in parallel, so a silent one does not delay the others. Stateless.
#pragma once

#include "base/time.hpp"
#include "job_source.hpp"

#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

struct FoundJob {
  JobSource source;
  std::string status;      // JSON; empty if no complete response arrived in time
  pid_t launcher_pid = 0;  // for a silent job: the agent's parent; 0 if in another pid namespace
  pid_t agent_pid = 0;     // as reported by the kernel

  [[nodiscard]] bool is_silent() const { return status.empty(); }
};

// Jobs that this user may query, sorted by launcher pid. `timeout` applies to all queries together.
[[nodiscard]] std::vector<FoundJob> find_jobs(Duration timeout);

}  // namespace muster
