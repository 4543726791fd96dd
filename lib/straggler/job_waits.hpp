// SPDX-License-Identifier: Apache-2.0
// JobWaits: the waits of all ranks in a job of many nodes, as the nodes report them, each by its
// own clock and at its own moments; and the nodes of slow ranks. Pure, value-like.
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

// The longest wait for a node's next report; after it, the node has finished or is out of touch.
inline constexpr Duration kNodeSilent = std::chrono::seconds(3);

// Nodes of jobs with up to this many ranks report each check, at most ten a second; others once a
// second.
inline constexpr int kPromptRanks = 256;

// How often to check for silent nodes.
inline constexpr Duration kScanEach = std::chrono::milliseconds(500);

// Sums of all nodes together; nodes that would exceed it are not compared.
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

  // Ignores ranks that are not the node's own.
  void take(TimePoint now, NodeWaits told);

  // The reports, once all nodes have sent a new one since the last time.
  [[nodiscard]] std::optional<std::vector<RankWaits>> next(TimePoint now);

  // By node, in the order of ranks.
  [[nodiscard]] std::vector<SlowPlace> places_of(const std::vector<int>& ranks) const;

 private:
  struct Node {
    NodeWaits last{};
    TimePoint told{};
    bool is_new = false;
    std::size_t sums = 0;
  };

  std::map<int, Node> nodes_{};  // by first rank
  std::size_t sums_ = 0;
  std::size_t new_ = 0;  // nodes with a new report
  TimePoint scanned_{};
};

}  // namespace muster::straggler
