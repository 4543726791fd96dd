// SPDX-License-Identifier: Apache-2.0
// The machines of a job as the user types them: --hosts a:4,user@b:2,rack[01-16],[::1]:8, with the
// GPUs of each as a:2@0,1;b:2@2,3, and the host files of mpirun. What comes back is handed to a
// remote shell as a word, hence only names and addresses are taken. Pure.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// More machines than one shell can start agents on.
inline constexpr std::size_t kJobHostsMax = 4096;
inline constexpr int kSlotsMax = 65'536;

struct JobHost {
  std::string target;        // for the remote shell: "a", "user@a", "::1", "ssh://user@a:2222"
  std::optional<int> slots;  // workers; none: not given
  std::string devices{};     // GPUs, as --devices; empty: not given
  bool is_local = false;     // this machine, which needs no remote shell; the caller decides
  bool operator==(const JobHost&) const = default;

  // Without user and port.
  [[nodiscard]] std::string name() const;

  [[nodiscard]] bool has_port() const { return target.starts_with("ssh://"); }
};

// `a:4,user@b`; a range as in Slurm's lists, each of its hosts with the same slots. A host that is
// named again adds its slots, or one where it has none. Error: usage.
[[nodiscard]] Result<std::vector<JobHost>> parse_job_hosts(std::string_view text);

// One entry a line: `a`, `a:4`, `a slots=4 max_slots=8` (the maximum is not used), with user=NAME,
// port=N and devices=0,1 where wanted; '#' begins a comment. Error: usage, with the line's number.
[[nodiscard]] Result<std::vector<JobHost>> parse_host_file(std::string_view text);

}  // namespace muster
