// SPDX-License-Identifier: Apache-2.0
#include "process/tree/tree_use.hpp"

#include <unistd.h>

namespace muster {

std::map<pid_t, TreeUse> sum_use(std::span<const pid_t> roots, std::span<const ProcessRow> rows) {
  std::map<pid_t, pid_t> root_of;
  for (const pid_t root : roots) {
    root_of[root] = root;
  }
  static const double ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::map<pid_t, TreeUse> out;
  for (const ProcessRow& row : rows) {
    auto found = root_of.find(row.pid);
    if (found == root_of.end()) {
      const auto parent = root_of.find(row.parent);
      if (parent == root_of.end()) {
        continue;
      }
      found = root_of.emplace(row.pid, parent->second).first;
    }
    TreeUse& use = out[found->second];
    use.cpu_seconds += static_cast<double>(row.cpu_ticks) / ticks_per_second;
    use.memory += row.resident_pages * page_bytes;
  }
  return out;
}

std::map<pid_t, TreeUse> use_of_trees(std::span<const pid_t> roots) {
  return sum_use(roots, descendants());
}

}  // namespace muster
