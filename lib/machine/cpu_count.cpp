// SPDX-License-Identifier: Apache-2.0
#include "machine/cpu_count.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace muster {
namespace {

// A mounted hierarchy that may limit CPUs: its mount point, and our cgroup relative to it.
struct Hierarchy {
  bool is_v2 = false;
  std::string mount_point;
  std::string group;  // "/a/b"; "" for the mount's own cgroup
};

// The cgroup that /proc/self/cgroup lists for v2 ("0::/a") or for v1's "cpu" controller.
std::optional<std::string> group_of(std::string_view cgroups, bool is_v2) {
  for (const std::string& line : split(cgroups, '\n')) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const auto controllers = split(line.substr(first + 1, second - first - 1), ',');
    const bool mine = is_v2 ? line.starts_with("0::")
                            : std::ranges::find(controllers, "cpu") != controllers.end();
    if (mine) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// In a container, the mount may show only the part of the hierarchy that starts at `root`.
std::string group_below(std::string_view group, std::string_view root) {
  if (root == "/") {
    return group == "/" ? "" : std::string(group);
  }
  const bool inside =
      group.starts_with(root) && (group.size() == root.size() || group[root.size()] == '/');
  return inside ? std::string(group.substr(root.size())) : "";
}

std::optional<Hierarchy> hierarchy_of(std::string_view mount, std::string_view cgroups) {
  if (mount.find(" cgroup") == std::string_view::npos) {
    return std::nullopt;  // most mounts are not cgroups; avoid the cost of parsing them
  }
  // id parent major:minor root mount-point options [optional] - type source super-options
  const auto fields = split(mount, ' ');
  const auto dash = std::ranges::find(fields, "-");
  if (fields.size() < 6 || std::distance(dash, fields.end()) < 4) {
    return std::nullopt;
  }
  const bool is_v2 = *(dash + 1) == "cgroup2";
  const auto options = split(*(dash + 3), ',');
  const bool is_cpu = *(dash + 1) == "cgroup" && std::ranges::find(options, "cpu") != options.end();
  if (!is_v2 && !is_cpu) {
    return std::nullopt;
  }
  const auto group = group_of(cgroups, is_v2);
  if (!group) {
    return std::nullopt;
  }
  return Hierarchy{is_v2, fields[4], group_below(*group, fields[3])};
}

std::optional<int> quota_at(const Hierarchy& hierarchy,
                            const std::string& group,
                            const TextReader& read) {
  const std::string folder = hierarchy.mount_point + group;
  if (hierarchy.is_v2) {
    return quota_from_cpu_max(read(folder + "/cpu.max").value_or(""));
  }
  return quota_from_cfs(read(folder + "/cpu.cfs_quota_us").value_or(""),
                        read(folder + "/cpu.cfs_period_us").value_or(""));
}

void keep_least(std::optional<int>& least, std::optional<int> other) {
  if (other && (!least || *other < *least)) {
    least = other;
  }
}

}  // namespace

std::optional<int> quota_from_cfs(std::string_view quota_us, std::string_view period_us) {
  const auto quota = parse_int(quota_us);
  const auto period = parse_int(period_us);
  if (!quota || !period || *quota <= 0 || *period <= 0) {
    return std::nullopt;
  }
  const std::int64_t cpus = *quota / *period + (*quota % *period != 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(cpus, std::numeric_limits<int>::max()));
}

std::optional<int> quota_from_cpu_max(std::string_view cpu_max) {
  const auto parts = split(trim(cpu_max), ' ');
  return parts.size() == 2 ? quota_from_cfs(parts[0], parts[1]) : std::nullopt;
}

std::optional<int> cgroup_quota(std::string_view cgroups,
                                std::string_view mounts,
                                const TextReader& read) {
  std::optional<int> least;
  for (const std::string& mount : split(mounts, '\n')) {
    const auto hierarchy = hierarchy_of(mount, cgroups);
    if (!hierarchy) {
      continue;
    }
    std::string group = hierarchy->group;
    keep_least(least, quota_at(*hierarchy, group, read));
    while (!group.empty()) {
      group.resize(group.rfind('/'));
      keep_least(least, quota_at(*hierarchy, group, read));
    }
  }
  return least;
}

}  // namespace muster
