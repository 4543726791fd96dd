// SPDX-License-Identifier: Apache-2.0
#include "process/tree/tree_use.hpp"

#include <unistd.h>

namespace muster {

std::map<pid_t, pid_t> roots_by_pid(std::span<const pid_t> roots,
                                    std::span<const ProcessRow> rows) {
  std::map<pid_t, pid_t> root_of;
  for (const pid_t root : roots) {
    root_of[root] = root;
  }
  for (const ProcessRow& row : rows) {
    if (const auto parent = root_of.find(row.parent); parent != root_of.end()) {
      root_of.emplace(row.pid, parent->second);
    }
  }
  return root_of;
}

std::map<pid_t, TreeUse> sum_use(std::span<const pid_t> roots, std::span<const ProcessRow> rows) {
  const auto root_of = roots_by_pid(roots, rows);
  static const double ticks_per_second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::map<pid_t, TreeUse> out;
  for (const ProcessRow& row : rows) {
    const auto found = root_of.find(row.pid);
    if (found == root_of.end()) {
      continue;
    }
    TreeUse& use = out[found->second];
    use.cpu_seconds += static_cast<double>(row.cpu_ticks) / ticks_per_second;
    use.memory += row.resident_pages * page_bytes;
  }
  return out;
}

}  // namespace muster
