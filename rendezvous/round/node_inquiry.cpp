// SPDX-License-Identifier: Apache-2.0
// Inquiries (inquiry.hpp) in NodeCore: sends queries, forwards them and answers them.
#include "rendezvous/round/node_core.hpp"
#include "rendezvous/round/send_to.hpp"

#include <memory>
#include <utility>

namespace muster {

MemberContact RoundCore::contact_of(NodeId id) const {
  MemberContact out{.finished = finished_.contains(id)};
  if (const auto node = nodes_.find(id); node != nodes_.end()) {
    // A node is always in contact with itself.
    out.heard = id == self_.id ? TimePoint::max() : node->second.heard;
    if (node->second.attached) {
      out.link = node->second.link;
    }
  } else if (const auto lost = losses_.find(id); lost != losses_.end()) {
    out.heard = lost->second.silent_since;
  }
  return out;
}

std::optional<NodeId> RoundCore::member_at(LinkId link) const {
  const auto found = links_.find(link);
  return phase_ == Phase::running && found != links_.end() && is_in_base(found->second)
             ? std::optional(found->second)
             : std::nullopt;
}

InquiryMembers NodeCore::inquiry_members() const {
  return {round_.base(), [this](NodeId id) { return round_.contact_of(id); }};
}

// -- as follower ------------------------------------------------------------------------------

// True if the message belongs to an inquiry. A verdict that arrives twice is delivered only once.
bool NodeCore::hear_inquiry(const RoundMessage& message, NodeEffects& from_link) {
  if (const auto* look = std::get_if<Look>(&message)) {
    // A query about another round is stale, and its inquiry ends with that round.
    if (look->round == link_.started()) {
      from_link.emplace_back(LookNow{*look});
    }
    return true;
  }
  const auto* said = std::get_if<Judged>(&message);
  if (said == nullptr) {
    return false;
  }
  const std::uint64_t before = inquiry_heard(said->topic);
  // Start may have arrived too late for this node to run the round's workers.
  const bool is_ours = said->round == link_.started() && link_.has_workers();
  if (is_ours && said->inquiry > before) {
    inquiry_heard_[said->topic] = {link_.coordinator().id, said->inquiry};
    from_link.emplace_back(HearVerdict{*said});
  }
  return true;
}

// Each coordinator numbers its inquiries separately.
std::uint64_t NodeCore::inquiry_heard(Topic topic) const {
  const auto heard = inquiry_heard_.find(topic);
  const bool is_known =
      heard != inquiry_heard_.end() && heard->second.first == link_.coordinator().id;
  return is_known ? heard->second.second : 0;
}

// True if the event belongs to an inquiry. The agent repeats requests that were lost.
bool NodeCore::take_inquiry(TimePoint now,
                            const NodeEvent& event,
                            NodeEffects& from_link,
                            NodeEffects& from_round) {
  const auto coordinator = link_.coordinator_link();
  if (const auto* asked = std::get_if<InquireHere>(&event)) {
    if (coordinator) {
      send_to(*coordinator,
              Inquire{link_.started(), inquiry_heard(asked->topic), asked->topic, asked->request},
              from_link);
    }
    return true;
  }
  if (const auto* looked = std::get_if<LookedHere>(&event)) {
    if (coordinator) {
      send_to(*coordinator, looked->message, from_link);
    }
    return true;
  }
  if (const auto* judged = std::get_if<JudgedHere>(&event)) {
    inquiry(judged->message.topic).judged(now, judged->message, inquiry_members(), from_round);
    return true;
  }
  return false;
}

// -- as coordinator ---------------------------------------------------------------------------

// True if the message belongs to an inquiry.
bool NodeCore::pass_inquiry(TimePoint now,
                            LinkId link,
                            const RoundMessage& message,
                            NodeEffects& from_round) {
  const auto* asked = std::get_if<Inquire>(&message);
  const auto* looked = std::get_if<Looked>(&message);
  if (asked == nullptr && looked == nullptr) {
    return false;
  }
  const auto from = round_.member_at(link);
  if (!from || (asked != nullptr ? asked->round : looked->round) != round_.started()) {
    return true;
  }
  if (asked == nullptr) {
    inquiry(looked->topic).take(*from, *looked, from_round);
    return true;
  }
  if (asked->topic == Topic::preemption) {
    round_.end_restarts();
  }
  inquiry(asked->topic).asked(now, link, *asked, inquiry_members(), from_round);
  return true;
}

void NodeCore::end_inquiries_with_round() {
  const bool runs = round_.leads() && round_.phase() == Phase::running;
  for (Inquiry& inquiry : inquiries_) {
    if (inquiry.round() && (!runs || inquiry.round() != round_.base())) {
      inquiry.drop();
    }
  }
}

}  // namespace muster
