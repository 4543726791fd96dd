// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/late_ranks.hpp"

#include "agent/watch/hang_control.hpp"
#include "hang/judge/own_cause.hpp"

#include <utility>
#include <vector>

namespace muster {

LateRanks::LateRanks(asio::io_context& loop, const AgentSetup& setup)
    : inspection_(loop,
                  {.py_spy = py_spy_of(setup),
                   .environment = setup.environ.to_block(),
                   .read_recorders = [] { return std::vector<collective::FlightLog>(); }}) {}

void LateRanks::look(const std::map<int, pid_t>& pids, Duration within) {
  hang::Evidence evidence;
  std::vector<pid_t> workers;
  for (const auto& [rank, pid] : pids) {
    evidence.ranks.push_back({.rank = rank});
    workers.push_back(pid);
  }
  inspection_.begin(
      std::move(evidence), std::move(workers), within, [this](const hang::Evidence& found) {
        for (const hang::RankEvidence& rank : found.ranks) {
          reasons_[rank.rank] = hang::own_cause(rank).reason;
        }
      });
}

std::string LateRanks::reason(int rank) const {
  const auto found = reasons_.find(rank);
  return found == reasons_.end() ? "" : found->second;
}

}  // namespace muster
