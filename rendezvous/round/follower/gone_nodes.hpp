// SPDX-License-Identifier: Apache-2.0
// GoneNodes: the nodes that a follower has found dead. A node that is found dead in time cannot
// have accepted a round that is unknown to the follower (rendezvous/README.md, "The rule"). Part of
// LinkCore; value-like.
#pragma once

#include "base/time.hpp"
#include "rendezvous/round/node_settings.hpp"

#include <algorithm>
#include <cstddef>
#include <set>

namespace muster {

class GoneNodes {
 public:
  explicit GoneNodes(Duration lease) : lease_(lease) {}

  // `by` granted a lease that we requested at `asked`. Therefore `by` had a quorum, and we were in
  // its round.
  void note_grant(TimePoint asked, NodeId by) {
    granted_ = std::max(granted_, asked);
    granted_by_ = by;
  }

  // `members` is the size of the node's round.
  void add(TimePoint now, NodeId node, std::size_t members) {
    all_.insert(node);
    // In such a small round, at most one member remains besides us and the coordinator. That member
    // cannot have formed a later round without us that the coordinator then accepted.
    constexpr std::size_t kFew = 3;
    const bool stays = node == granted_by_ && members <= kFew;
    if (now < granted_ + (stays ? stays_for(lease_) : fence_after(lease_))) {
      in_time_.insert(node);
    }
  }

  [[nodiscard]] bool contains(NodeId node) const { return all_.contains(node); }

  [[nodiscard]] const std::set<NodeId>& in_time() const { return in_time_; }

  // The time until which no round can have been formed without us.
  [[nodiscard]] TimePoint in_touch_until() const { return granted_ + fence_after(lease_); }

  // Call when we follow a coordinator again. Nodes that were found dead will be tried again.
  void forget() { all_.clear(); }

  // Call when a round starts, because all of its members are alive.
  void begin_round() { in_time_.clear(); }

 private:
  Duration lease_;
  TimePoint granted_ = TimePoint::min();
  NodeId granted_by_ = 0;
  std::set<NodeId> all_;
  std::set<NodeId> in_time_;
};

}  // namespace muster
