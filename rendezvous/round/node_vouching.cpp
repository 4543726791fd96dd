// SPDX-License-Identifier: Apache-2.0
// Vouching for store clients (client_vouching.hpp) in NodeCore: sends, forwards and answers queries
// about the owner of a connection to the workers' store.
#include "rendezvous/round/node_core.hpp"
#include "rendezvous/round/send_to.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace muster {

std::optional<LinkId> LinkCore::coordinator_link() const {
  return is_attached() ? link_ : std::nullopt;
}

// -- as follower ------------------------------------------------------------------------------

// True if the message is about vouching.
bool NodeCore::hear_vouching(const RoundMessage& message, NodeEffects& from_link) {
  if (const auto* question = std::get_if<Vouch>(&message)) {
    from_link.emplace_back(FindOwner{*question});
    return true;
  }
  if (const auto* said = std::get_if<Vouched>(&message)) {
    client_vouching_.take(*said, from_link);
    return true;
  }
  return false;
}

bool NodeCore::take_vouching(TimePoint now, const NodeEvent& event, NodeEffects& from_link) {
  const auto coordinator = link_.coordinator_link();
  if (const auto* wanted = std::get_if<VouchWanted>(&event)) {
    client_vouching_.want(now, *wanted, coordinator, from_link);
    return true;
  }
  const auto* found = std::get_if<OwnerFound>(&event);
  if (found == nullptr) {
    return false;
  }
  if (coordinator) {  // otherwise the question will be repeated
    send_to(*coordinator,
            Vouched{found->question.asker,
                    found->question.sequence,
                    found->question.asked,
                    found->answer,
                    link_.self().name},
            from_link);
  }
  return true;
}

// A new coordinator has not received the questions that were sent to the previous one.
void NodeCore::follow_vouching(TimePoint now, NodeEffects& from_link) {
  const auto coordinator = link_.coordinator_link();
  if (coordinator != vouching_by_) {
    vouching_by_ = coordinator;
    client_vouching_.ask_all(now, coordinator, from_link);
  }
}

// -- as coordinator ---------------------------------------------------------------------------

// True if the message is about vouching. Only the first member of the running round has a store.
bool NodeCore::pass_vouching(LinkId link, const RoundMessage& message, NodeEffects& from_round) {
  const auto* question = std::get_if<Vouch>(&message);
  const auto* said = std::get_if<Vouched>(&message);
  if (question == nullptr && said == nullptr) {
    return false;
  }
  const RoundPtr& round = round_.base();
  // Without a round there is no store yet.
  if (round->members.empty()) {
    return true;
  }
  const NodeId host = round->members.front().id;
  const auto to_host = round_.link_of(host);
  if (question != nullptr && to_host == link) {
    pass_question(link, *question, from_round);
  } else if (said != nullptr && said->asker == host && to_host) {
    send_to(*to_host, *said, from_round);
  }
  return true;
}

void NodeCore::pass_question(LinkId asker, const Vouch& question, NodeEffects& from_round) {
  make_address_book();
  const std::vector<NodeId> nodes = addresses_of_members_.find(question.client.host);
  Vouch passed = question;
  // A client is refused once all queried nodes have denied it, so the asking node needs the number
  // of queried nodes.
  passed.asker = round_.base()->members.front().id;
  passed.asked = static_cast<std::uint32_t>(nodes.size());
  Vouched by_us{
      passed.asker, passed.sequence, passed.asked, VouchAnswer::unknown_address, link_.self().name};
  // No node has this address, so answer here.
  if (nodes.empty()) {
    send_to(asker, by_us, from_round);
  }
  for (const NodeId node : nodes) {
    if (const auto link = round_.link_of(node)) {
      send_to(*link, passed, from_round);
    } else {
      by_us.answer = VouchAnswer::out_of_touch;
      send_to(asker, by_us, from_round);
    }
  }
}

void NodeCore::make_address_book() {
  const RoundPtr& round = round_.base();
  if (addresses_of_members_.is_of(round)) {
    return;
  }
  addresses_of_members_.begin(round);
  const auto add_all = [this](const std::vector<std::string>& addresses, NodeId node) {
    for (const std::string& address : addresses) {
      addresses_of_members_.add(address, node);
    }
  };
  for (const NodeInfo& member : round->members) {
    addresses_of_members_.add(member.address, member.id);
    if (member.id == link_.self().id) {
      add_all(settings_.addresses, member.id);
    }
    const auto link = round_.link_of(member.id);
    const auto from = link ? addresses_.find(*link) : addresses_.end();
    if (from != addresses_.end()) {
      add_all(from->second, member.id);
    }
  }
}

}  // namespace muster
