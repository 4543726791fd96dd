// SPDX-License-Identifier: Apache-2.0
// JobWaits: collects the wait times of all ranks in a multi-node job and maps slow ranks to their
// nodes. The nodes report at different times, and each uses its own clock. Pure, value-like.
#pragma once

#include "base/time.hpp"
#include "straggler/slow.hpp"
#include "straggler/waits.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::straggler {

// Maximum wait for a node's next report. A node that is silent for longer is assumed to have
// finished or to be unreachable.
inline constexpr Duration kNodeSilent = std::chrono::seconds(3);

// In jobs with up to this many ranks, nodes send a report after each check, at most ten per second.
// In larger jobs they send one per second.
inline constexpr int kPromptRanks = 256;

// The interval between checks for silent nodes.
inline constexpr Duration kScanEach = std::chrono::milliseconds(500);

// Limit on the total number of GroupWaits from all nodes. A report that would exceed the limit is
// ignored.
inline constexpr std::size_t kJobSumsMax = 1U << 20U;

struct NodeWaits {
  std::string node;
  int rank_first = 0;
  int ranks = 0;
  std::vector<RankWaits> waits{};
};

class JobWaits {
 public:
  void begin() { *this = {}; }

  // Ignores ranks that do not belong to the node.
  void take(TimePoint now, NodeWaits told);

  // Returns the new reports once every node that is not silent has sent a report since the last
  // result.
  [[nodiscard]] std::optional<std::vector<RankWaits>> next(TimePoint now);

  // The ranks grouped by node, in rank order.
  [[nodiscard]] std::vector<SlowPlace> places_of(const std::vector<int>& ranks) const;

 private:
  struct Node {
    NodeWaits last{};
    TimePoint told{};
    bool is_new = false;
    std::size_t sums = 0;
  };

  std::map<int, Node> nodes_{};  // key: the node's first rank
  std::size_t sums_ = 0;
  std::size_t new_ = 0;  // nodes with a new report
  TimePoint scanned_{};
};

}  // namespace muster::straggler
