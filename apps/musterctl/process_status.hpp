// SPDX-License-Identifier: Apache-2.0
// The pids of this machine, and the user of a process, from /proc. Stateless.
#pragma once

#include <optional>
#include <vector>

#include <sys/types.h>

namespace muster {

struct ProcessStatus {
  pid_t parent = 0;
  uid_t user = 0;  // effective
};

// From /proc/PID/status, which is readable also where the files of the process belong to root.
[[nodiscard]] std::optional<ProcessStatus> read_process_status(pid_t process);

[[nodiscard]] std::vector<pid_t> all_pids();

}  // namespace muster
