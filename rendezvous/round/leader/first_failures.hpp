// SPDX-License-Identifier: Apache-2.0
// FirstFailures: on which nodes the first failures of rounds happened lately. A node with two of
// them may be broken (replacing.cpp). Part of RoundCore; pure, value-like.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace muster {

// This number of first failures makes a node suspect. One failure proves nothing.
inline constexpr std::size_t kFirstFailuresOfSuspect = 2;

class FirstFailures {
 public:
  // Older failures do not count.
  explicit FirstFailures(Duration window) : window_(window) {}

  // Returns the number of first failures on the node within the window, this one included.
  std::size_t note(TimePoint now, NodeId node) {
    std::erase_if(failures_, [&](const auto& failure) { return !is_recent(now, failure.second); });
    failures_.emplace_back(node, now);
    return count(now, node);
  }

  [[nodiscard]] std::size_t count(TimePoint now, NodeId node) const {
    return static_cast<std::size_t>(std::ranges::count_if(failures_, [&](const auto& failure) {
      return failure.first == node && is_recent(now, failure.second);
    }));
  }

 private:
  [[nodiscard]] bool is_recent(TimePoint now, TimePoint when) const { return now - when < window_; }

  Duration window_;
  std::vector<std::pair<NodeId, TimePoint>> failures_;
};

}  // namespace muster
