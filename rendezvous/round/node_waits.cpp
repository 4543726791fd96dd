// SPDX-License-Identifier: Apache-2.0
// Detection of slow ranks in NodeCore: each node sends its ranks' wait times to its coordinator,
// whose agent judges them. NodeCore keeps no state for this; lost data is replaced within a second.
#include "rendezvous/round/node_core.hpp"

#include <memory>
#include <utility>

namespace muster {

// -- as follower ------------------------------------------------------------------------------

// True if the event contains wait times.
bool NodeCore::take_waits(const NodeEvent& event, NodeEffects& from_link) const {
  const auto* seen = std::get_if<WaitedHere>(&event);
  if (seen == nullptr) {
    return false;
  }
  if (const auto coordinator = link_.coordinator_link()) {
    Waited said = seen->message;
    said.round = link_.started();
    from_link.emplace_back(
        SendMessage{*coordinator, std::make_shared<const RoundMessage>(std::move(said))});
  }
  return true;
}

// -- as coordinator ---------------------------------------------------------------------------

HearWaits RoundCore::heard_from(NodeId member, const Waited& said) const {
  const std::size_t place = places_.at(member);
  const NodeInfo& node = base_->members[place];
  return {node.name, {ranks_first_[place], node.nproc}, said};
}

// True if the message contains wait times.
bool NodeCore::pass_waits(LinkId link, const RoundMessage& message, NodeEffects& from_round) const {
  const auto* said = std::get_if<Waited>(&message);
  if (said == nullptr) {
    return false;
  }
  const auto from = round_.member_at(link);
  if (from && said->round == round_.started()) {
    from_round.emplace_back(round_.heard_from(*from, *said));
  }
  return true;
}

}  // namespace muster
