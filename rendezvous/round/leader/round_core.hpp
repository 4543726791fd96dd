// SPDX-License-Identifier: Apache-2.0
// RoundCore: the coordinator of a job. Decides membership, forms and re-forms rounds, and ends the
// job. Idle on nodes that do not lead. Part of NodeCore; pure, value-like. README.md has the table
// of phases and events. Functions are grouped by phase: round_core.cpp (links and nodes),
// forming.cpp, running.cpp.
#pragma once

#include "rendezvous/round/leader/first_failures.hpp"
#include "rendezvous/round/leader/mends_of_round.hpp"
#include "rendezvous/round/leader/quorum.hpp"
#include "rendezvous/round/leader/roster.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/round/node_settings.hpp"
#include "rendezvous/round/phase.hpp"
#include "rendezvous/round/questions/asker.hpp"
#include "rendezvous/round/questions/inquiry.hpp"
#include "rendezvous/round/restart_policy.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// The reply to a node of another job.
[[nodiscard]] Refuse other_job(const std::string& theirs);

class RoundCore {
 public:
  RoundCore(NodeSettings settings, const NodeInfo& self);

  void set_self(const NodeInfo& self);

  void lead(TimePoint now, const Lead& lead, NodeEffects& out);
  // Redirects all followers to `other` and becomes idle.
  void yield_to(const NodeInfo& other, NodeEffects& out);

  // A node of this job was refused. Before the first round, this ends the job if the job needs that
  // node.
  void give_up_refused(TimePoint now, const std::string& reason, NodeEffects& out);

  // Handles a join Hello. Link 0 is this node itself.
  void attach(TimePoint now, LinkId link, const Hello& hello, NodeEffects& out);
  void receive(TimePoint now, LinkId link, const RoundMessage& message, NodeEffects& out);
  void link_ended(TimePoint now, LinkId link, NodeEffects& out);
  void tick(TimePoint now, NodeEffects& out);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;

  // True for connections opened by this class's own queries.
  [[nodiscard]] bool owns(LinkId link) const { return asker_.owns(link); }

  void question_opened(TimePoint now, LinkId link, NodeEffects& out);
  void question_answered(TimePoint now, LinkId link, const RoundMessage& message, NodeEffects& out);
  void question_ended(TimePoint now, LinkId link, LinkEnd how, NodeEffects& out);

  [[nodiscard]] bool leads() const { return phase_ != Phase::idle; }

  [[nodiscard]] Phase phase() const { return phase_; }

  [[nodiscard]] bool knows(LinkId link) const {
    return links_.contains(link) || dismissed_.contains(link);
  }

  // The connection of a follower, if it has sent a message recently.
  [[nodiscard]] std::optional<LinkId> live_link_of(TimePoint now, NodeId id) const;

  // True if this coordinator may form rounds and grant leases.
  [[nodiscard]] bool has_quorum(TimePoint now);

  [[nodiscard]] RoundId started() const { return base_->id; }

  // Empty if `forget_node` would have an effect; otherwise the reason and what to do.
  [[nodiscard]] std::string why_not_forget(const std::string& name) const;
  void forget_node(TimePoint now, const std::string& name, NodeEffects& out);

  // The scheduler will stop the job: no further round is formed.
  void end_restarts() { restarts_ended_ = true; }

  // What we inherit from previous agents. It is part of our claim to lead.
  [[nodiscard]] Inheritance inheritance() const;

  // The last started round, or the first proposed round if none has started. Never null.
  [[nodiscard]] const RoundPtr& base() const { return base_; }

  // Rounds after base() that may have been started.
  [[nodiscard]] const std::vector<RoundPtr>& accepted() const { return accepted_; }

  // The connection of an attached follower.
  [[nodiscard]] std::optional<LinkId> link_of(NodeId id) const {
    const auto found = nodes_.find(id);
    return found != nodes_.end() && found->second.attached ? std::optional(found->second.link)
                                                           : std::nullopt;
  }

  // For an inquiry (node_inquiry.cpp): contact_of covers members of the running round, including
  // lost ones; member_at maps a follower's connection to its member.
  [[nodiscard]] MemberContact contact_of(NodeId id) const;
  [[nodiscard]] std::optional<NodeId> member_at(LinkId link) const;
  // Wraps the wait sums that this member sent for its ranks.
  [[nodiscard]] HearWaits heard_from(NodeId member, const Waited& said) const;

  // A connecting node claims to lead the job. Any peer can claim this, so if the claim takes
  // precedence over ours, we query the node at the address in the claim.
  void hear_claim(TimePoint now, const Hello& hello, NodeEffects& out);

  // Returns and clears a stronger leader found in an answer. NodeCore then yields to it.
  [[nodiscard]] std::optional<NodeInfo> take_stronger();

  [[nodiscard]] std::string describe() const;

  // Number of known nodes, both followers and lost ones.
  [[nodiscard]] std::size_t size() const { return nodes_.size() + losses_.size(); }

  // Checks the invariants between two events by recounting. Empty if all hold (invariants.cpp).
  [[nodiscard]] std::string check_invariants() const;

 private:
  friend struct Tamper;  // injects errors in tests
  using State = FollowerState;
  using Node = Follower;
  using Failure = FailureReport;

  // links and nodes (round_core.cpp)
  [[nodiscard]] std::optional<Refuse> refusal_of(TimePoint now, const Hello& hello) const;
  [[nodiscard]] const Follower* holder_of_place(TimePoint now, const Hello& hello) const;
  [[nodiscard]] bool is_place_in_doubt(TimePoint now, const Hello& hello);
  [[nodiscard]] std::optional<Refuse> refusal_of_place(TimePoint now, const Hello& hello) const;
  void refuse(TimePoint now, LinkId link, const Hello& hello, const Refuse& why, NodeEffects& out);

  // restarted agents (inheriting.cpp)
  [[nodiscard]] bool is_of_other_job(const Inheritance& record) const;
  [[nodiscard]] std::vector<NodeId> lost_as(const std::string& name) const;
  void succeed(TimePoint now, const Hello& hello, NodeEffects& out);
  void end_predecessor(TimePoint now, NodeId gone, const NodeInfo& heir, NodeEffects& out);
  void give_places(TimePoint now);
  [[nodiscard]] RoundPtr inherited(const RoundPtr& round) const;
  [[nodiscard]] bool is_heir(NodeId id, const Round& round) const;
  [[nodiscard]] bool is_forgotten(NodeId id) const;

  // True if all that we know about earlier rounds comes from records. A leader that founded the
  // job, or that remembers it, takes precedence.
  [[nodiscard]] bool is_recalled() const { return !confirmed_ && !founder_; }

  void end_old_round(const Node& node, const Hello& hello, NodeEffects& out) const;
  void resume(TimePoint now, Node& node, const Hello& hello, NodeEffects& out);
  void learn_rounds(TimePoint now, const Rounds& rounds);
  [[nodiscard]] bool is_outsider(TimePoint now, NodeId id);
  void drop_deaf(TimePoint now, NodeEffects& out);
  void take_rounds(TimePoint now, Node& node, const Rounds& rounds, NodeEffects& out);
  [[nodiscard]] std::string check_counts() const;
  [[nodiscard]] std::string check_node(NodeId id, const Node& node) const;
  [[nodiscard]] std::string check_losses() const;
  [[nodiscard]] std::string check_phase() const;
  void await_missing(TimePoint now);
  void beat(TimePoint now, Node& node, const Beat& said, NodeEffects& out);
  void set_state(Node& node, State state);
  void recount(Node& node);
  void lose(TimePoint now, NodeId id, NodeEffects& out);
  void forget(NodeId id);
  void bury(TimePoint now, NodeId id, NodeEffects& out);
  void note_loss(TimePoint now, NodeId id, const std::string& reason, NodeEffects& out);
  void scan(TimePoint now, NodeEffects& out);
  [[nodiscard]] bool out_of_lease(TimePoint now, NodeId id) const;
  [[nodiscard]] bool is_in_time(TimePoint now, NodeId gone) const;
  [[nodiscard]] Hello question(TimePoint now);
  void take_answer(TimePoint now, const AskResult& result, NodeEffects& out);
  // True if another leader with this claim takes precedence over us.
  [[nodiscard]] bool is_stronger(TimePoint now,
                                 const NodeInfo& other,
                                 const RoundId& started,
                                 bool quorum,
                                 const Inheritance& theirs);
  [[nodiscard]] NodeInfo known_as(const NodeInfo& claimed) const;
  [[nodiscard]] bool is_worth_following(TimePoint now, const Claim& claim);
  [[nodiscard]] bool is_unknown_leader(const Claim& claim) const;
  void ask_around(TimePoint now, NodeEffects& out);
  void refresh_quorum(TimePoint now);
  [[nodiscard]] std::vector<MemberEvidence> evidence_of(TimePoint now, const Round& round) const;
  void set_base(RoundPtr base);

  [[nodiscard]] bool is_in_base(NodeId id) const { return places_.contains(id); }

  [[nodiscard]] static bool is_in(const Round& round, NodeId id);
  [[nodiscard]] bool is_member(NodeId id) const;
  [[nodiscard]] std::string name_of(NodeId id) const;
  [[nodiscard]] Node* node_of(LinkId link);
  static void send(LinkId link, RoundMessage message, NodeEffects& out);

  // forming (forming.cpp)
  void evaluate(TimePoint now, NodeEffects& out);
  void count_expected(TimePoint now);
  [[nodiscard]] std::size_t count_awaited() const;
  [[nodiscard]] bool enough_ready(TimePoint now);
  [[nodiscard]] bool enough_founders(TimePoint now, std::size_t eligible);
  [[nodiscard]] bool is_claimed(TimePoint now) const;
  [[nodiscard]] bool all_expected_ready(TimePoint now) const;
  [[nodiscard]] bool quorum_is_ready() const;
  using Counts = bool (*)(const Node&);  // whether a member counts as present
  [[nodiscard]] std::vector<Standing> standings_of(const Round& round, Counts counts) const;
  [[nodiscard]] static bool is_eligible(const Node& node);
  [[nodiscard]] std::vector<NodeInfo> choose(TimePoint now) const;
  [[nodiscard]] bool leaves_out_granted(TimePoint now, const std::vector<NodeInfo>& chosen) const;
  [[nodiscard]] std::optional<TimePoint> short_by() const;
  void close_short(TimePoint now, NodeEffects& out);
  [[nodiscard]] bool fills_all_ranks(const std::vector<NodeInfo>& nodes) const;
  void note_ready(TimePoint now, Node& node, const Ready& ready, NodeEffects& out);
  void propose(TimePoint now, std::vector<NodeInfo> members, NodeEffects& out);
  void accept(TimePoint now, Node& node, const Accept& accepting, NodeEffects& out);
  [[nodiscard]] bool may_start(TimePoint now) const;
  void abandon(TimePoint now, NodeEffects& out);
  void replace_superseded(TimePoint now, NodeEffects& out);
  void abandon_for_other(TimePoint now, NodeEffects& out);
  void drop_slow_newcomers(TimePoint now, NodeEffects& out);
  void start(TimePoint now, NodeEffects& out);
  void send_start(LinkId link, NodeEffects& out) const;
  void enter(TimePoint now, Phase phase);
  void roll_call(TimePoint now, NodeEffects& out);
  [[nodiscard]] RollCall make_roll_call(TimePoint now) const;
  [[nodiscard]] std::vector<std::string> awaited_names(TimePoint now) const;

  // running (running.cpp)
  void regroup(TimePoint now, const Regroup& why, bool membership, NodeEffects& out);
  void note_failure(TimePoint now, const Node& node, const Failed& failed, NodeEffects& out);
  void note_details(const Node& node, const Details& details);
  void note_late_finish(const Node& node, NodeEffects& out);
  void note_finish(TimePoint now, Node& node, const Finished& finished, NodeEffects& out);
  void note_leave(TimePoint now, Node& node, const Leave& leave, NodeEffects& out);
  void welcome_newcomers(TimePoint now, NodeEffects& out);

  // --restart=rank (mending.cpp)
  void begin_mends();
  void learn_mends(TimePoint now, Node& node, const Hello& hello);
  void count_mends(const Mends& theirs);
  void send_mend(const Node& node, const Mends& known, NodeEffects& out) const;
  void note_lacking(TimePoint now, Node& node, const Lacking& lacking, NodeEffects& out);
  void note_mended(const Node& node, const Mended& mended);
  [[nodiscard]] bool was_counted(NodeId node, std::int32_t rank) const;
  [[nodiscard]] std::string mend_obstacle(const Node& node, const Lacking& lacking) const;
  [[nodiscard]] std::string note_repeat(const Lacking& lacking);
  void grant_mend(Node& node, const Lacking& lacking, const std::string& reason, NodeEffects& out);
  [[nodiscard]] Mend mend_of(const Node& node,
                             const Lacking& lacking,
                             const std::string& reason) const;

  // nodes that fail often (replacing.cpp)
  [[nodiscard]] static bool is_last_resort(TimePoint now, const Node& node);
  [[nodiscard]] std::size_t count_last_resorts(TimePoint now) const;
  [[nodiscard]] bool has_spare(TimePoint now) const;
  [[nodiscard]] bool is_due(TimePoint now, NodeId node, const Failed& failed) const;
  [[nodiscard]] std::string node_cause_of(const Failure& first) const;
  void note_first_failure(TimePoint now, const FirstFailure& failure, NodeEffects& out);

  void judge(TimePoint now, NodeEffects& out);
  void end_preempted(TimePoint now, NodeEffects& out);
  [[nodiscard]] bool everybody_heard() const;
  [[nodiscard]] const Failure& root() const;
  void close(TimePoint now, Close ending, NodeEffects& out);
  void close_failed(TimePoint now, NodeEffects& out);

  [[nodiscard]] static bool may_come_back(const Loss& loss) { return !loss.gone && !loss.over; }

  [[nodiscard]] bool is_anyone_coming_back() const;
  void end_closed(TimePoint now, NodeEffects& out);

  NodeSettings settings_;
  NodeInfo self_;
  Phase phase_ = Phase::idle;
  TimePoint phase_since_{};
  bool founder_ = false;
  RoundPtr base_;  // the last started round, or the first proposed round if none has started
  std::map<NodeId, std::size_t> places_;   // group ranks in base_
  std::vector<std::int32_t> ranks_first_;  // first rank of each member, by group rank
  std::vector<RoundPtr> accepted_;         // later rounds that may have been started
  RoundPtr proposal_;
  std::uint64_t number_ = 0;  // the highest round number seen
  std::map<NodeId, Node> nodes_;
  std::map<LinkId, NodeId> links_;
  std::set<LinkId> dismissed_;                   // links to dismissed nodes, until they close
  std::map<NodeId, Loss> losses_;                // lost members of base_ and accepted_
  TimePoint quiet_since_ = TimePoint::min();     // no former coordinator granted a lease after this
  TimePoint in_touch_until_ = TimePoint::min();  // copied from Lead, as is gone_in_time_
  std::set<NodeId> gone_in_time_;
  Inheritance inherits_;                     // what this node inherited from earlier agents
  bool confirmed_ = false;                   // an attached node remembers a round
  std::map<NodeId, RoundId> heirs_;          // restarted agents and the last round in their record
  std::map<NodeId, NodeInfo> predecessors_;  // dead agents and the node that has their record
  std::optional<TimePoint> quorum_until_;
  TimePoint quorum_checked_ = TimePoint::min();
  std::uint64_t arrivals_ = 0;
  std::size_t eligible_ = 0;   // nodes that can be members of a round
  std::size_t ready_ = 0;      // nodes in state ready
  std::size_t accepts_ = 0;    // number of accepts of the current proposal
  std::set<NodeId> finished_;  // members of the running round, including dismissed ones
  std::size_t stopping_ = 0;   // nodes in state stopping
  std::size_t running_ = 0;    // nodes in state running or finished
  std::size_t expected_ = 0;   // members awaited while gathering
  bool membership_changed_ = false;
  Regroup regroup_;        // the last Regroup sent
  std::set<NodeId> deaf_;  // live nodes that did not answer Regroup
  std::optional<TimePoint> newcomer_since_;
  std::optional<TimePoint> enough_since_;  // start of the last call, when the minimum was reached
  std::vector<Failure> failures_;
  std::set<std::pair<NodeId, std::int32_t>> failed_ranks_;
  std::map<std::int32_t, std::string> details_;
  std::optional<TimePoint> verdict_by_;
  std::string verdict_;
  std::optional<Close> close_;
  MendsOfRound mends_;
  std::int32_t restarts_known_ = 0;  // of other leaders, mends included
  Mend mend_;  // the last one of the running round; before the first, only round and epoch
  RestartPolicy policy_;
  FirstFailures first_failures_;
  bool restarts_ended_ = false;  // the scheduler has announced that it will stop the job
  std::int32_t restart_count_ = 0;
  std::string store_addr_;
  std::uint16_t store_port_ = 0;
  LeaderOffer offer_;
  std::map<std::string, std::string> refused_;  // name of each refused node → reason
  std::map<NodeId, TimePoint> rivals_;          // nodes that request a taken rank, and since when
  std::optional<RollCall> roll_call_;           // the last roll call sent
  TimePoint roll_call_due_{};
  TimePoint scan_due_{};
  Asker asker_;
  std::optional<NodeInfo> stronger_;
  std::optional<TimePoint> claims_since_;      // time of the first claim that takes precedence
  TimePoint claimed_at_{};                     // time of the last claim that takes precedence
  std::set<NodeId> claimants_;                 // the claiming nodes, until they answer or join
  std::set<std::size_t> unchecked_endpoints_;  // endpoints where another leader may answer
};

}  // namespace muster
