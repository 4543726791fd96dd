// SPDX-License-Identifier: Apache-2.0
// All pids on this host, and the parent and the user of a process, from /proc. Stateless.
#pragma once

#include <optional>
#include <vector>

#include <sys/types.h>

namespace muster {

struct ProcessStatus {
  pid_t parent = 0;
  uid_t user = 0;  // effective user id
};

// Reads /proc/PID/status, which is readable even if root owns the process's files.
[[nodiscard]] std::optional<ProcessStatus> read_process_status(pid_t process);

[[nodiscard]] std::vector<pid_t> all_pids();

}  // namespace muster
