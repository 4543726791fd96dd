// SPDX-License-Identifier: Apache-2.0
// Members that the user declares dead (musterctl forget), in RoundCore and NodeCore. A forgotten
// member is treated as if it had never been in the known rounds.
#include "rendezvous/round/node_core.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {

bool RoundCore::is_forgotten(NodeId id) const {
  const auto loss = losses_.find(id);
  return loss != losses_.end() && loss->second.forgotten;
}

std::vector<NodeId> RoundCore::lost_as(const std::string& name) const {
  std::vector<NodeId> lost;
  for (const auto& [id, loss] : losses_) {
    if (!loss.forgotten && is_member(id) && name_of(id) == name) {
      lost.push_back(id);
    }
  }
  return lost;
}

std::string RoundCore::why_not_forget(const std::string& name) const {
  const bool is_waiting = phase_ == Phase::gathering || phase_ == Phase::stopping;
  if (is_waiting && !lost_as(name).empty()) {
    return {};
  }
  return fmt::format(
      "this job is not waiting for a lost node '{}'; muster's \"waiting for\" line names "
      "the nodes that it waits for",
      name);
}

// A silent node is still queried. If it is alive and leads, the weaker of the two leaders yields.
void RoundCore::forget_node(TimePoint now, const std::string& name, NodeEffects& out) {
  if (!why_not_forget(name).empty()) {
    return;
  }
  for (const NodeId id : lost_as(name)) {
    losses_[id].forgotten = true;
    // Mark the loss as over, so that judge() and close() no longer wait for this node.
    losses_[id].over = true;
    note_loss(now, id, fmt::format("node '{}' was declared dead by the user", name), out);
  }
  out.emplace_back(
      SayNode{fmt::format("node '{}' was declared dead by musterctl forget; if it is still "
                          "running, two copies of this job are running",
                          name)});
  evaluate(now, out);
}

std::string NodeCore::why_not_forget(const std::string& name) const {
  if (round_.leads()) {
    return round_.why_not_forget(name);
  }
  if (!link_.coordinator_link()) {
    return "this node has not found a leader yet; try again later";
  }
  return fmt::format(
      "node '{}' leads this job: run musterctl forget {} there", link_.coordinator().name, name);
}

}  // namespace muster
