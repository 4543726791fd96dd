// SPDX-License-Identifier: Apache-2.0
// Groups ranks by host, using each rank's host identifier, and chooses the matching backend. Pure.
#pragma once

#include "collective/error.hpp"
#include "collective/types.hpp"

#include <string>
#include <vector>

namespace muster::collective {

struct Hosts {
  std::vector<std::vector<int>> ranks;  // ranks on each host, ascending; hosts by first rank
  std::vector<int> host_of;             // for each rank, the index of its host

  [[nodiscard]] const std::vector<int>& beside(int rank) const {
    return ranks[static_cast<std::size_t>(host_of[static_cast<std::size_t>(rank)])];
  }
};

[[nodiscard]] Hosts group_by_host(const std::vector<std::string>& names);

// Error: unsupported, if the requested backend cannot connect ranks on these hosts.
[[nodiscard]] Result<Backend> choose_backend(Backend wanted, const Hosts& hosts);

}  // namespace muster::collective
