// SPDX-License-Identifier: Apache-2.0
// Assignment of group ranks to nodes. Pure; RoundCore uses it for each proposal.
#pragma once

#include "rendezvous/wire/round_messages.hpp"

#include <string>
#include <vector>

namespace muster {

// A node that requests a valid node_rank (less than the number of nodes) gets it. If several nodes
// request the same rank, the first in the order below gets it, and the others come last. The other
// nodes fill the remaining ranks: first those listed in `rank_order`, in its order, then by natural
// order of name, then of address. Nodes that are equal in all of these (agents on one host) keep
// their order from `previous`, and a newcomer among them takes the place of a missing node.
// Otherwise they stay in the given order.
[[nodiscard]] std::vector<NodeInfo> rank_nodes(std::vector<NodeInfo> nodes,
                                               const std::vector<std::string>& rank_order,
                                               const std::vector<NodeInfo>& previous);

// The ranks on this node; empty if the node is not a member.
[[nodiscard]] RankSpan ranks_of(const Round& round, NodeId member);

}  // namespace muster
