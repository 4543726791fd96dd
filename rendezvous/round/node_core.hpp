// SPDX-License-Identifier: Apache-2.0
// NodeCore: the rendezvous state machine of one node: a follower (LinkCore) and, if the node leads,
// a coordinator (RoundCore). rendezvous/README.md explains the rule that prevents two concurrent
// rounds. Stepped by rendezvous/node and the simulator. Pure, single-threaded, value-like.
//
// The caller
// 1. steps NodeStarted first,
// 2. executes the effects in order after each step,
// 3. re-arms its timer with next_deadline(),
// 4. stops stepping after an End… effect.
#pragma once

#include "rendezvous/round/failure_proof.hpp"
#include "rendezvous/round/follower/link_core.hpp"
#include "rendezvous/round/leader/round_core.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/round/node_settings.hpp"
#include "rendezvous/round/questions/client_vouching.hpp"
#include "rendezvous/round/questions/inquiry.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace muster {

class NodeCore {
 public:
  // `seed` is used only for retry jitter.
  NodeCore(NodeSettings settings, NodeInfo self, std::uint64_t seed);

  void step(TimePoint now, const NodeEvent& event, NodeEffects& out);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  [[nodiscard]] const LinkCore& link() const { return link_; }

  [[nodiscard]] const RoundCore& coordinator() const { return round_; }

  // Empty if ForgetNode would have an effect. Otherwise the reason why not, and what to do.
  [[nodiscard]] std::string why_not_forget(const std::string& name) const;

  // True if the job's outcome is decided but other nodes have not learned it yet.
  [[nodiscard]] bool is_closing() const { return round_.phase() == Phase::closed; }

  [[nodiscard]] std::string describe() const;

  // Checks the invariants that hold between two events (invariants.cpp). Empty if all hold.
  [[nodiscard]] std::string check_invariants() const;

 private:
  friend struct Tamper;  // for tests that inject errors

  void route(TimePoint now,
             const NodeEvent& event,
             NodeEffects& from_link,
             NodeEffects& from_round);
  void end_link(TimePoint now,
                const LinkClosed& ended,
                NodeEffects& from_link,
                NodeEffects& from_round);
  void take_message(TimePoint now,
                    const MessageReceived& received,
                    NodeEffects& from_link,
                    NodeEffects& from_round);
  void greet(TimePoint now,
             LinkId link,
             const Hello& hello,
             NodeEffects& from_link,
             NodeEffects& from_round);
  void answer_question(TimePoint now,
                       LinkId link,
                       const Hello& hello,
                       NodeEffects& from_link,
                       NodeEffects& from_round);
  [[nodiscard]] bool is_impostor(TimePoint now, LinkId link, const Hello& hello) const;
  void attach(TimePoint now, LinkId link, const Hello& hello, NodeEffects& from_round);
  void note_addresses(LinkId link, const Hello& hello);
  [[nodiscard]] Claim claim(TimePoint now);
  void redirect(LinkId link, NodeEffects& out) const;
  void yield(TimePoint now, const NodeInfo& other, NodeEffects& from_link, NodeEffects& from_round);
  void settle(TimePoint now, NodeEffects& from_link, NodeEffects& from_round, NodeEffects& out);
  void take_agent_event(TimePoint now, const NodeEvent& event, NodeEffects& from_link);
  void note_workers(TimePoint now, const NodeEffects& out);
  void tell_round(TimePoint now, const RoundMessage& message, NodeEffects& out);
  void unpark(TimePoint now, NodeEffects& out);
  void note_step();
  [[nodiscard]] bool hear_vouching(const RoundMessage& message, NodeEffects& from_link);
  [[nodiscard]] bool take_vouching(TimePoint now, const NodeEvent& event, NodeEffects& from_link);
  void follow_vouching(TimePoint now, NodeEffects& from_link);
  [[nodiscard]] bool pass_vouching(LinkId link,
                                   const RoundMessage& message,
                                   NodeEffects& from_round);
  void pass_question(LinkId asker, const Vouch& question, NodeEffects& from_round);
  void make_address_book();
  [[nodiscard]] InquiryMembers inquiry_members() const;
  [[nodiscard]] bool hear_inquiry(const RoundMessage& message, NodeEffects& from_link);
  [[nodiscard]] std::uint64_t inquiry_heard(Topic topic) const;

  [[nodiscard]] Inquiry& inquiry(Topic topic) {
    return inquiries_[static_cast<std::size_t>(topic)];
  }

  [[nodiscard]] bool take_inquiry(TimePoint now,
                                  const NodeEvent& event,
                                  NodeEffects& from_link,
                                  NodeEffects& from_round);
  [[nodiscard]] bool pass_inquiry(TimePoint now,
                                  LinkId link,
                                  const RoundMessage& message,
                                  NodeEffects& from_round);
  void end_inquiries_with_round();
  [[nodiscard]] bool take_waits(const NodeEvent& event, NodeEffects& from_link) const;
  [[nodiscard]] bool pass_waits(LinkId link,
                                const RoundMessage& message,
                                NodeEffects& from_round) const;

  NodeSettings settings_;
  LinkCore link_;
  RoundCore round_;
  FailureProof proof_;
  std::size_t unchecked_steps_ = 0;
  NodeId yielded_to_ = 0;
  TimePoint yielded_at_{};
  std::set<LinkId> strangers_;  // accepted; no message received yet
  // Of peers that connected to us: the source address of the connection, then those in Hello.
  std::map<LinkId, std::vector<std::string>> addresses_;
  ClientVouching client_vouching_;
  std::optional<LinkId> vouching_by_;  // the coordinator that was last queried
  AddressBook addresses_of_members_;
  std::array<Inquiry, kTopics> inquiries_;  // by topic
  // By topic: the coordinator, and the number of its last inquiry whose verdict we received.
  std::map<Topic, std::pair<NodeId, std::uint64_t>> inquiry_heard_;
  std::map<LinkId, Hello> parked_;  // nodes that want to join while we do not know the leader
};

}  // namespace muster
