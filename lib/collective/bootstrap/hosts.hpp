// SPDX-License-Identifier: Apache-2.0
// Who shares a host with whom, from the word that each rank gives for its host, and which back end
// that calls for. Pure.
#pragma once

#include "collective/error.hpp"
#include "collective/types.hpp"

#include <string>
#include <vector>

namespace muster::collective {

struct Hosts {
  std::vector<std::vector<int>> ranks;  // of each host, in order; hosts by their first rank
  std::vector<int> host_of;             // each rank's

  [[nodiscard]] const std::vector<int>& beside(int rank) const {
    return ranks[static_cast<std::size_t>(host_of[static_cast<std::size_t>(rank)])];
  }
};

[[nodiscard]] Hosts group_by_host(const std::vector<std::string>& names);

// Error: unsupported, if what is wanted does not fit the hosts.
[[nodiscard]] Result<Backend> choose_backend(Backend wanted, const Hosts& hosts);

}  // namespace muster::collective
