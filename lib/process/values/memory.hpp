// SPDX-License-Identifier: Apache-2.0
// Statistics of this process's memory cgroup: the number of OOM kills, the limit and the peak. Read
// before an attempt and after a SIGKILL that muster did not send. Supports cgroup v1 and v2;
// without a cgroup, all values are unknown. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

struct MemoryFacts {
  std::optional<std::uint64_t> kills;
  std::optional<std::uint64_t> limit_bytes;  // none if unlimited or unknown
  std::optional<std::uint64_t> peak_bytes;

  // Unknown values are omitted.
  [[nodiscard]] std::string describe() const;
  bool operator==(const MemoryFacts&) const = default;
};

// The directory of this process's memory cgroup, from the text of /proc/self/cgroup and the cgroup
// mount point. Inside a container it may be the container's root. Empty if there is no such cgroup.
[[nodiscard]] std::string memory_group_folder(std::string_view proc_self_cgroup,
                                              const std::string& mount);

[[nodiscard]] MemoryFacts read_memory_facts(const std::string& folder);

// Reads only the number of OOM kills.
[[nodiscard]] std::optional<std::uint64_t> read_memory_kills(const std::string& folder);

// The directory of this process's own cgroup.
[[nodiscard]] std::string own_memory_group();

// The number after `key` in "key 1\nother 2\n".
[[nodiscard]] std::optional<std::uint64_t> value_of(std::string_view text, std::string_view key);

}  // namespace muster
