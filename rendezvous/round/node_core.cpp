// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/node_core.hpp"

#include "rendezvous/round/send_to.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <type_traits>
#include <utility>

namespace muster {
namespace {

// Limit on the number of connections that are parked until we know our leader.
constexpr std::size_t kParkedMax = 65536;

}  // namespace

NodeCore::NodeCore(NodeSettings settings, NodeInfo self, std::uint64_t seed)
    : settings_(std::move(settings)),
      link_(settings_, self, seed),
      round_(settings_, self),
      client_vouching_(self.id, settings_.lease),
      inquiries_{Inquiry{Topic::hang, settings_.lease},
                 Inquiry{Topic::preemption, settings_.lease},
                 Inquiry{Topic::departure, settings_.lease},
                 Inquiry{Topic::check, settings_.lease}} {}

// Follower and coordinator write to separate lists, so that messages between them can be handled
// before any effect leaves the node.
void NodeCore::step(TimePoint now, const NodeEvent& event, NodeEffects& out) {
  NodeEffects from_link;
  NodeEffects from_round;
  end_inquiries_with_round();
  route(now, event, from_link, from_round);
  follow_vouching(now, from_link);
  const std::size_t before = out.size();
  settle(now, from_link, from_round, out);
  note_workers(now, {out.begin() + static_cast<std::ptrdiff_t>(before), out.end()});
  note_step();
}

// Records stop requests to the workers, because a later failure may be a consequence of them.
void NodeCore::note_workers(TimePoint now, const NodeEffects& out) {
  for (const NodeEffect& effect : out) {
    if (std::holds_alternative<RunRound>(effect)) {
      proof_.begin(now);
    } else if (std::holds_alternative<StopWorkers>(effect) ||
               std::holds_alternative<FenceWorkers>(effect)) {
      proof_.stop(now);
    }
  }
}

// A failure that is only the result of our own stop request is not reported. Otherwise every node
// would report one, and the root cause would be lost among these reports.
void NodeCore::take_agent_event(TimePoint now, const NodeEvent& event, NodeEffects& from_link) {
  if (const auto* failed = std::get_if<WorkerFailedHere>(&event)) {
    WorkerFailedHere judged = *failed;
    if (proof_.judge(judged)) {
      link_.take(now, judged, from_link);
    }
    return;
  }
  const auto* details = std::get_if<Details>(&event);
  if (details == nullptr || proof_.wants_details(details->rank)) {
    link_.take(now, event, from_link);
  }
}

void NodeCore::route(TimePoint now,
                     const NodeEvent& event,
                     NodeEffects& from_link,
                     NodeEffects& from_round) {
  std::visit(
      [&]<class Event>(const Event& happened) {
        if constexpr (std::is_same_v<Event, LinkOpened>) {
          if (round_.owns(happened.link)) {
            round_.question_opened(now, happened.link, from_round);
          } else if (link_.owns(happened.link)) {
            link_.opened(now, happened.link, from_link);
          }
        } else if constexpr (std::is_same_v<Event, LinkClosed>) {
          end_link(now, happened, from_link, from_round);
        } else if constexpr (std::is_same_v<Event, LinkAccepted>) {
          // We do not know why the peer connected until its first message arrives.
          strangers_.insert(happened.link);
          addresses_[happened.link] = {happened.from};
        } else if constexpr (std::is_same_v<Event, MessageReceived>) {
          take_message(now, happened, from_link, from_round);
        } else if constexpr (std::is_same_v<Event, TokenRefused>) {
          const std::string what =
              fmt::format("refused node at {}: {}", happened.from, happened.text);
          round_.give_up_refused(now, what, from_round);
        } else if constexpr (std::is_same_v<Event, NodeStarted>) {
          link_.begin(now, happened, from_link);
        } else if constexpr (std::is_same_v<Event, EndpointBound>) {
          link_.endpoint_bound(now, from_link);
        } else if constexpr (std::is_same_v<Event, ForgetNode>) {
          round_.forget_node(now, happened.name, from_round);
        } else if constexpr (std::is_same_v<Event, ListenerKnown>) {
          link_.set_listener(happened.address, happened.port);
          round_.set_self(link_.self());
        } else if constexpr (std::is_same_v<Event, NodeTick>) {
          link_.tick(now, from_link);
          round_.tick(now, from_round);
          client_vouching_.tick(now, link_.coordinator_link(), from_link);
          for (Inquiry& inquiry : inquiries_) {
            inquiry.tick(now, inquiry_members(), from_round);
          }
        } else if (!take_vouching(now, event, from_link) &&
                   !take_inquiry(now, event, from_link, from_round) &&
                   !take_waits(event, from_link)) {
          take_agent_event(now, event, from_link);
        }
      },
      event);
}

void NodeCore::end_link(TimePoint now,
                        const LinkClosed& ended,
                        NodeEffects& from_link,
                        NodeEffects& from_round) {
  // Link IDs are never reused, so it is safe to erase the ID from all three containers.
  strangers_.erase(ended.link);
  addresses_.erase(ended.link);
  parked_.erase(ended.link);
  if (round_.owns(ended.link)) {
    round_.question_ended(now, ended.link, ended.how, from_round);
  } else if (round_.knows(ended.link)) {
    round_.link_ended(now, ended.link, from_round);
  } else if (link_.owns(ended.link)) {
    link_.closed(now, ended, from_link);
  }
}

void NodeCore::take_message(TimePoint now,
                            const MessageReceived& received,
                            NodeEffects& from_link,
                            NodeEffects& from_round) {
  const RoundMessage& message = *received.message;
  // A message's meaning depends on the owner of the connection. For example, a Redirect is either a
  // reply to a query or an order from our coordinator.
  if (round_.owns(received.link)) {
    round_.question_answered(now, received.link, message, from_round);
  } else if (round_.knows(received.link)) {
    if (!pass_vouching(received.link, message, from_round) &&
        !pass_inquiry(now, received.link, message, from_round) &&
        !pass_waits(received.link, message, from_round)) {
      round_.receive(now, received.link, message, from_round);
    }
  } else if (link_.owns(received.link)) {
    if (!hear_vouching(message, from_link) && !hear_inquiry(message, from_link)) {
      link_.received(now, message, from_link);
    }
  } else if (strangers_.erase(received.link) > 0) {
    const auto* hello = std::get_if<Hello>(&message);
    if (hello != nullptr) {
      greet(now, received.link, *hello, from_link, from_round);
    } else {
      from_round.emplace_back(CloseLink{received.link});
    }
  }
}

// Handles the first message on an incoming connection.
void NodeCore::greet(TimePoint now,
                     LinkId link,
                     const Hello& hello,
                     NodeEffects& from_link,
                     NodeEffects& from_round) {
  if (hello.purpose == Purpose::ask) {
    answer_question(now, link, hello, from_link, from_round);
  } else if (hello.node.id == link_.self().id || hello.purpose == Purpose::carry) {
    // Either this node has connected to itself through its own endpoint, or a peer uses our ID.
    // Connections that carry worker data are handled by the shell.
    from_round.emplace_back(CloseLink{link});
  } else if (round_.leads()) {
    attach(now, link, hello, from_round);
  } else if (link_.knows_better(now, hello.lost)) {
    redirect(link, from_round);
  } else if (parked_.size() < kParkedMax) {
    // We may soon become the leader, or learn which node leads. If we answered now, the node would
    // only have to try again.
    parked_.emplace(link, hello);
  } else {
    from_round.emplace_back(CloseLink{link});
  }
}

// True if the ID, or the ID of a predecessor, belongs to a live node that follows us from another
// host. A node whose address has changed is admitted once its old connection has been silent for
// half a lease.
bool NodeCore::is_impostor(TimePoint now, LinkId link, const Hello& hello) const {
  const auto is_taken = [&](NodeId id) {
    const auto live = round_.live_link_of(now, id);
    const auto there = live ? addresses_.find(*live) : addresses_.end();
    const auto here = addresses_.find(link);
    return there != addresses_.end() && here != addresses_.end() &&
           std::ranges::find(there->second, here->second.front()) == there->second.end();
  };
  return is_taken(hello.node.id) || std::ranges::any_of(hello.inherits.ids, is_taken);
}

void NodeCore::attach(TimePoint now, LinkId link, const Hello& hello, NodeEffects& from_round) {
  if (is_impostor(now, link, hello)) {
    from_round.emplace_back(CloseLink{link});
  } else {
    note_addresses(link, hello);
    round_.attach(now, link, hello, from_round);
    for (Inquiry& inquiry : inquiries_) {
      inquiry.attached(hello.node.id, inquiry_members(), from_round);
    }
  }
}

void NodeCore::note_addresses(LinkId link, const Hello& hello) {
  if (const auto known = addresses_.find(link); known != addresses_.end()) {
    known->second.insert(known->second.end(), hello.addresses.begin(), hello.addresses.end());
  }
  addresses_of_members_.clear();
}

void NodeCore::redirect(LinkId link, NodeEffects& out) const {
  send_to(link, Redirect{link_.coordinator()}, out);
  out.emplace_back(CloseLink{link});
}

void NodeCore::answer_question(TimePoint now,
                               LinkId link,
                               const Hello& hello,
                               NodeEffects& from_link,
                               NodeEffects& from_round) {
  const bool same_job = hello.terms.job_id == settings_.terms.job_id;
  RoundMessage answer = other_job(hello.terms.job_id);
  if (same_job) {
    answer = claim(now);
  }
  from_round.emplace_back(
      SendMessage{link, std::make_shared<const RoundMessage>(std::move(answer))});
  from_round.emplace_back(CloseLink{link});
  // A query from a leader also announces that leader to us.
  if (!same_job || !hello.coordinates || hello.node.id == link_.self().id) {
    return;
  }
  if (!round_.leads()) {
    link_.hint(now, hello.node, from_link);
  } else {
    round_.hear_claim(now, hello, from_round);
  }
}

// The reply to a query: the leader that we know, and the strength of its claim.
Claim NodeCore::claim(TimePoint now) {
  Claim claim;
  claim.node = link_.self();
  if (round_.leads()) {
    claim.coordinator = link_.self();
    claim.started = round_.started();
    claim.inherits = round_.inheritance();
    // A quorum that is still gathering runs no workers, so it ranks below a running quorum.
    claim.has_quorum = round_.phase() == Phase::running && round_.has_quorum(now);
  } else {
    claim.started = link_.started();
    if (link_.is_attached()) {
      claim.coordinator = link_.coordinator();
      claim.has_quorum = link_.is_granted(now);
    }
  }
  return claim;
}

void NodeCore::yield(TimePoint now,
                     const NodeInfo& other,
                     NodeEffects& from_link,
                     NodeEffects& from_round) {
  // Do not yield to the same leader too often, in case it cannot be reached from here.
  if (other.id == yielded_to_ && now < yielded_at_ + settings_.lease / 4) {
    return;
  }
  yielded_to_ = other.id;
  yielded_at_ = now;
  round_.yield_to(other, from_round);
  link_.follow(now, other, from_link);
}

// Delivers the messages that the node sends to itself, until none remain.
void NodeCore::settle(TimePoint now,
                      NodeEffects& from_link,
                      NodeEffects& from_round,
                      NodeEffects& out) {
  while (true) {
    NodeEffects link_out = std::exchange(from_link, {});
    NodeEffects round_out = std::exchange(from_round, {});
    const auto lead = link_.take_lead();
    if (link_out.empty() && round_out.empty() && !lead) {
      break;
    }
    // Call lead() first, because `link_out` contains the Hello with which this node joins its own
    // coordinator.
    if (lead) {
      round_.lead(now, *lead, from_round);
      if (!lead->founder) {  // a founder already listens on its endpoints
        from_round.emplace_back(HostEndpoints{});
      }
    }
    for (NodeEffect& effect : link_out) {
      const auto* said = std::get_if<SendMessage>(&effect);
      if (said != nullptr && said->link == 0) {
        tell_round(now, *said->message, from_round);
      } else {
        out.push_back(std::move(effect));
      }
    }
    for (NodeEffect& effect : round_out) {
      const auto* said = std::get_if<SendMessage>(&effect);
      if (said != nullptr && said->link == 0) {
        // If our follower has left this coordinator during the step, it ignores the message.
        if (link_.owns(0) && !hear_vouching(*said->message, from_link) &&
            !hear_inquiry(*said->message, from_link)) {
          link_.received(now, *said->message, from_link);
        }
      } else {
        // No LinkClosed follows for a connection that we close.
        if (const auto* closed = std::get_if<CloseLink>(&effect)) {
          addresses_.erase(closed->link);
        }
        out.push_back(std::move(effect));
      }
    }
    // yield() replaces the coordinator's state, so it is called outside of the coordinator's
    // functions.
    if (const auto stronger = round_.take_stronger(); stronger && round_.leads()) {
      yield(now, *stronger, from_link, from_round);
    }
    unpark(now, from_round);
  }
}

void NodeCore::tell_round(TimePoint now, const RoundMessage& message, NodeEffects& out) {
  if (const auto* hello = std::get_if<Hello>(&message)) {
    addresses_of_members_.clear();
    round_.attach(now, 0, *hello, out);
  } else if (!pass_vouching(0, message, out) && !pass_inquiry(now, 0, message, out) &&
             !pass_waits(0, message, out)) {
    round_.receive(now, 0, message, out);
  }
}

void NodeCore::unpark(TimePoint now, NodeEffects& out) {
  if (parked_.empty() || !(round_.leads() || link_.is_attached())) {
    return;
  }
  for (const auto& [link, hello] : std::exchange(parked_, {})) {
    if (round_.leads()) {
      attach(now, link, hello, out);
    } else if (link_.knows_better(now, hello.lost)) {
      redirect(link, out);
    } else {
      parked_.emplace(link, hello);
    }
  }
}

std::optional<TimePoint> NodeCore::next_deadline() const {
  std::optional<TimePoint> next = link_.next_deadline();
  const auto take = [&next](const std::optional<TimePoint>& other) {
    next = next && other ? std::min(*next, *other) : next ? next : other;
  };
  take(round_.next_deadline());
  take(client_vouching_.next_deadline());
  for (const Inquiry& inquiry : inquiries_) {
    take(inquiry.next_deadline());
  }
  return next;
}

std::string NodeCore::describe() const {
  return fmt::format("{} | {}", link_.describe(), round_.describe());
}

}  // namespace muster
