// SPDX-License-Identifier: Apache-2.0
// JobWaits: what the ranks of a job of many nodes have waited, as their nodes tell it, each by its
// own clock and at its own moments; and on which nodes slow ranks are. Pure, value-like.
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

// Nobody waits longer for the next word of a node: it has finished, or is out of touch.
inline constexpr Duration kNodeSilent = std::chrono::seconds(3);

// Nodes of a job with no more ranks tell each look, ten a second at most; others once a second.
inline constexpr int kPromptRanks = 256;

// So often it is seen who is silent.
inline constexpr Duration kScanEach = std::chrono::milliseconds(500);

// Sums of all nodes together; nodes that would go beyond it are not compared.
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

  // Ranks that are not the node's own are passed over.
  void take(TimePoint now, NodeWaits told);

  // Once all nodes have told anew since the last time: what they told.
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
  std::size_t new_ = 0;  // nodes that have told anew
  TimePoint scanned_{};
};

}  // namespace muster::straggler
