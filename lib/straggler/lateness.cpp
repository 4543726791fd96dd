// SPDX-License-Identifier: Apache-2.0
#include "straggler/lateness.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace muster::straggler {
namespace {

using collective::FlightLog;
using collective::FlightRecord;
using Group = std::pair<std::string, std::uint64_t>;  // a communicator's name and epoch
using Calls = std::map<int, double>;  // time of each rank's call in seconds, by rank

// The time at which each rank called each operation of one communicator, by operation number.
struct Called {
  std::size_t ranks = 0;
  std::map<std::uint64_t, Calls> operations;
};

void add(const FlightLog& log, int rank, Called& called) {
  ++called.ranks;
  for (const FlightRecord& record : log.records) {
    if (!record.on_gpu && record.completed_ns != 0 && !is_transfer(record.request.kind)) {
      called.operations[record.request.seq][rank] = 1e-9 * static_cast<double>(record.queued_ns);
    }
  }
}

// Totals over all operations: each rank's wait, and how much later the slow ranks arrived than the
// others.
struct Sums {
  std::map<int, double> waited;
  double late = 0;
};

void add(const Calls& calls, const std::vector<int>& slow, Sums& sums) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  double last_slow = kNever;
  double last_other = kNever;
  for (const auto& [rank, when] : calls) {
    double& last = std::ranges::binary_search(slow, rank) ? last_slow : last_other;
    last = std::max(last, when);
  }
  if (last_slow == kNever || last_other == kNever) {
    return;
  }
  for (const auto& [rank, when] : calls) {
    sums.waited[rank] += std::max(last_slow, last_other) - when;
  }
  sums.late += std::max(0.0, last_slow - last_other);
}

// How much longer the other ranks wait than the slowest rank, computed as in StragglerCore.
double difference(const Sums& sums, const std::vector<int>& slow) {
  double least_slow = std::numeric_limits<double>::infinity();
  double least_other = least_slow;
  for (const auto& [rank, waited] : sums.waited) {
    double& least = std::ranges::binary_search(slow, rank) ? least_slow : least_other;
    least = std::min(least, waited);
  }
  return least_other - least_slow;
}

}  // namespace

std::optional<double> own_share(const std::vector<FlightLog>& logs,
                                const std::map<pid_t, int>& ranks,
                                const std::vector<int>& slow) {
  std::map<Group, Called> groups;
  for (const FlightLog& log : logs) {
    if (const auto rank = ranks.find(log.pid); rank != ranks.end()) {
      add(log, rank->second, groups[{log.name, log.epoch}]);
    }
  }
  Sums sums;
  for (const auto& [group, called] : groups) {
    for (const auto& [number, calls] : called.operations) {
      if (calls.size() == called.ranks) {  // otherwise a recorder has overwritten the operation
        add(calls, slow, sums);
      }
    }
  }
  const double whole = sums.waited.size() < 2 ? 0 : difference(sums, slow);
  return whole > 0 && sums.late > 0 ? std::optional(std::min(1.0, sums.late / whole))
                                    : std::nullopt;
}

}  // namespace muster::straggler
