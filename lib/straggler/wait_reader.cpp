// SPDX-License-Identifier: Apache-2.0
#include "straggler/wait_reader.hpp"

#include "collective/recorder/flight_recorder.hpp"
#include "straggler/lateness.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>

namespace muster::straggler {
namespace {

GroupWaits group_of(const collective::FlightWaits& read) {
  constexpr std::uint64_t kMost = std::numeric_limits<Duration::rep>::max();
  GroupWaits out;
  out.group = fmt::format("{}, epoch {}", read.name, read.epoch);
  out.operations = read.operations;
  out.waits = read.waits;
  out.waited = Duration(static_cast<Duration::rep>(std::min(read.waited_ns, kMost)));
  return out;
}

}  // namespace

std::vector<RankWaits> read_waits(const std::vector<int>& recorders,
                                  const std::map<pid_t, int>& ranks) {
  std::map<pid_t, RankWaits> found;
  for (const int fd : recorders) {
    for (const collective::FlightWaits& read : collective::read_flight_waits(fd)) {
      const auto known = ranks.find(read.pid);
      if (known == ranks.end()) {
        continue;
      }
      RankWaits& rank = found[known->first];
      rank.rank = known->second;
      if (rank.groups.size() < kGroupsMax) {
        rank.groups.push_back(group_of(read));
      }
    }
  }
  std::vector<RankWaits> out;
  for (auto& [pid, rank] : found) {
    out.push_back(std::move(rank));
  }
  return out;
}

void refine(const std::vector<int>& recorders, const std::map<pid_t, int>& ranks, Slow& slow) {
  std::vector<collective::FlightLog> logs;
  for (const int fd : recorders) {
    auto read =
        collective::read_flight_recorders("/proc/self/fd/" + std::to_string(fd), kRecordsMax);
    if (read) {
      std::ranges::move(*read, std::back_inserter(logs));
    }
  }
  if (const auto share = own_share(logs, ranks, slow.ranks)) {
    slow.share *= *share;
    if (slow.lost_seconds) {
      *slow.lost_seconds *= *share;
    }
  }
}

}  // namespace muster::straggler
