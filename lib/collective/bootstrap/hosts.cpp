// SPDX-License-Identifier: Apache-2.0
#include "collective/bootstrap/hosts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace muster::collective {

Hosts group_by_host(const std::vector<std::string>& names) {
  Hosts out;
  std::map<std::string, int> known;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto [at, is_new] = known.try_emplace(names[rank], static_cast<int>(out.ranks.size()));
    if (is_new) {
      out.ranks.emplace_back();
    }
    out.ranks[static_cast<std::size_t>(at->second)].push_back(static_cast<int>(rank));
    out.host_of.push_back(at->second);
  }
  return out;
}

Result<Backend> choose_backend(Backend wanted, const Hosts& hosts) {
  const bool one_host = hosts.ranks.size() == 1;
  if (wanted == Backend::shm && !one_host) {
    return failure(Errc::unsupported,
                   fmt::format("backend shm requires all ranks on one host, but they are on {}; "
                               "use auto, hier or tcp",
                               hosts.ranks.size()));
  }
  if (wanted != Backend::automatic && wanted != Backend::nccl) {
    return wanted;
  }
  if (one_host) {
    return Backend::shm;
  }
  const bool one_rank_each =
      std::ranges::all_of(hosts.ranks, [](const auto& ranks) { return ranks.size() == 1; });
  return one_rank_each ? Backend::tcp : Backend::hier;
}

}  // namespace muster::collective
