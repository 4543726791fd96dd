// SPDX-License-Identifier: Apache-2.0
// Which node gets which group rank. Pure; used by RoundCore for each proposal.
#pragma once

#include "rendezvous/wire/round_messages.hpp"

#include <string>
#include <vector>

namespace muster {

// Nodes with a place of their own (node_rank below their number) get it; where several ask for one,
// the first in the order that follows does, and the others go behind. The rest fill what is left:
// those listed in `rank_order` first, in its order, then by natural order of name, then of address.
// Nodes that are equal in all this (agents of one machine) keep the order that they have in
// `previous`, and a newcomer among them takes the place of the one that it replaces; else they stay
// in the order given.
[[nodiscard]] std::vector<NodeInfo> rank_nodes(std::vector<NodeInfo> nodes,
                                               const std::vector<std::string>& rank_order,
                                               const std::vector<NodeInfo>& previous);

// Those of one member; none where it is no member.
[[nodiscard]] RankSpan ranks_of(const Round& round, NodeId member);

// Whether a name of the list means this node: equal without regard to case, or one is the other's
// first label ("node7" and "node7.cluster").
[[nodiscard]] bool names_match(const std::string& listed, const std::string& name);

}  // namespace muster
