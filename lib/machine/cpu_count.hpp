// SPDX-License-Identifier: Apache-2.0
// The number of CPUs that a cgroup's quota allows, from files in /proc and /sys. Used by
// LinuxMachine. Pure: the caller passes a function that reads files.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace muster {

// The text of a file; none if it cannot be read.
using TextReader = std::function<std::optional<std::string>(const std::string& path)>;

// The quota of one cgroup in CPUs, rounded up to a whole number.
[[nodiscard]] std::optional<int> quota_from_cpu_max(std::string_view cpu_max);  // cgroup v2
[[nodiscard]] std::optional<int> quota_from_cfs(std::string_view quota_us,      // cgroup v1
                                                std::string_view period_us);

// The lowest quota among our cgroup and those of its ancestors that this mount exposes. `cgroups`
// is /proc/self/cgroup, `mounts` is /proc/self/mountinfo.
[[nodiscard]] std::optional<int> cgroup_quota(std::string_view cgroups,
                                              std::string_view mounts,
                                              const TextReader& read);

}  // namespace muster
