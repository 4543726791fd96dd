// SPDX-License-Identifier: Apache-2.0
// What the memory cgroup of this process knows: how many processes the kernel killed in it for
// want of memory, its limit and its peak. Read before an attempt and after a SIGKILL that was not
// ours. Cgroup version 1 and 2; where there is neither, nothing is known. Values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

struct MemoryFacts {
  std::optional<std::uint64_t> kills;
  std::optional<std::uint64_t> limit_bytes;  // none: unlimited or unknown
  std::optional<std::uint64_t> peak_bytes;

  // "limit 512 MiB, peak 512 MiB"; what is unknown is left out.
  [[nodiscard]] std::string describe() const;
  bool operator==(const MemoryFacts&) const = default;
};

// The folder of this process's memory group, from the text of /proc/self/cgroup and the place
// where the groups are mounted; inside a container the path may be its root's. Empty: none.
[[nodiscard]] std::string memory_group_folder(std::string_view proc_self_cgroup,
                                              const std::string& mount);

[[nodiscard]] MemoryFacts read_memory_facts(const std::string& folder);

// Its first fact only.
[[nodiscard]] std::optional<std::uint64_t> read_memory_kills(const std::string& folder);

// The folder of this process's own group.
[[nodiscard]] std::string own_memory_group();

// The number behind `key` in "key 1\nother 2\n".
[[nodiscard]] std::optional<std::uint64_t> value_of(std::string_view text, std::string_view key);

}  // namespace muster
