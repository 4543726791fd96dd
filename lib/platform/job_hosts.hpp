// SPDX-License-Identifier: Apache-2.0
// The hosts of a job as typed by the user: --hosts a:4,user@b:2,rack[01-16],[::1]:8, optionally
// with the GPUs of each host as in a:2@0,1;b:2@2,3, and mpirun's host files. The results become
// arguments of a remote shell, so only names and addresses are accepted. Pure.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The maximum number of hosts on which agents can be started.
inline constexpr std::size_t kJobHostsMax = 4096;
inline constexpr int kSlotsMax = 65'536;

struct JobHost {
  std::string target;        // for the remote shell: "a", "user@a", "::1", "ssh://user@a:2222"
  std::optional<int> slots;  // workers; none if not specified
  std::string devices{};     // GPUs, as in --devices; empty if not specified
  bool is_local = false;     // this host, which needs no remote shell; set by the caller
  bool operator==(const JobHost&) const = default;

  // The host without user and port.
  [[nodiscard]] std::string name() const;

  [[nodiscard]] bool has_port() const { return target.starts_with("ssh://"); }
};

// Parses `a:4,user@b`. Ranges have the same syntax as in Slurm's lists, and each host in a range
// has the same number of slots. If a host is listed again, its slots are added, or one slot if no
// number is given. Error: usage.
[[nodiscard]] Result<std::vector<JobHost>> parse_job_hosts(std::string_view text);

// Each line is one entry: `a`, `a:4`, or `a slots=4 max_slots=8` (max_slots is ignored), optionally
// with user=NAME, port=N and devices=0,1. '#' begins a comment. Error: usage, with the line number.
[[nodiscard]] Result<std::vector<JobHost>> parse_host_file(std::string_view text);

}  // namespace muster
