// SPDX-License-Identifier: Apache-2.0
// LinkCore: the follower side of one node. It finds a coordinator, follows it, keeps the lease,
// switches to another coordinator when the rule allows it, and asks to lead when its turn comes.
// Part of NodeCore; pure, value-like. The search is in finding_leader.cpp, the record in
// recording.cpp, and the rest in link_core.cpp.
#pragma once

#include "rendezvous/round/follower/endpoint_dialler.hpp"
#include "rendezvous/round/follower/gone_nodes.hpp"
#include "rendezvous/round/leader/round_core.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/round/node_settings.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

class LinkCore {
 public:
  LinkCore(NodeSettings settings, NodeInfo self, std::uint64_t seed);

  void set_listener(const std::string& address, std::uint16_t port);
  void begin(TimePoint now, const NodeStarted& started, NodeEffects& out);
  void endpoint_bound(TimePoint now, NodeEffects& out);

  // Call these only for a connection that this class owns (see owns).
  void opened(TimePoint now, LinkId link, NodeEffects& out);
  void received(TimePoint now, const RoundMessage& message, NodeEffects& out);
  void closed(TimePoint now, const LinkClosed& ended, NodeEffects& out);

  // Handles the agent's events about workers, the store, the record and leaving. NodeCore handles
  // the agent's other events.
  void take(TimePoint now, const NodeEvent& event, NodeEffects& out);

  // Called when a leader announces itself while we search for one.
  void hint(TimePoint now, const NodeInfo& leader, NodeEffects& out);
  // Called when this node has led and now yields to `other`.
  void follow(TimePoint now, const NodeInfo& other, NodeEffects& out);

  void tick(TimePoint now, NodeEffects& out);
  [[nodiscard]] std::optional<TimePoint> next_deadline() const;
  [[nodiscard]] std::optional<LinkId> coordinator_link() const;  // nullopt unless attached

  [[nodiscard]] bool owns(LinkId link) const { return link_ == link || dialler_.index_of(link); }

  [[nodiscard]] bool is_attached() const { return state_ == State::attached; }

  // True if we follow a coordinator other than the one that the sender lost, or if we still receive
  // messages from that lost coordinator.
  [[nodiscard]] bool knows_better(TimePoint now, NodeId lost) const {
    return is_attached() &&
           (coordinator_.id != lost || now - last_word_ < 2 * beat_interval(settings_.lease));
  }

  [[nodiscard]] bool has_ended() const { return state_ == State::ended; }

  [[nodiscard]] const NodeInfo& self() const { return self_; }

  // Valid only while attached.
  [[nodiscard]] const NodeInfo& coordinator() const { return coordinator_; }

  [[nodiscard]] RoundId started() const { return started_->id; }

  // True from the start of the workers of started() until WorkersGone.
  [[nodiscard]] bool has_workers() const { return work_ != Work::none; }

  [[nodiscard]] bool is_granted(TimePoint now) const { return fence_at_ && now < *fence_at_; }

  // Returns and clears the request to lead.
  [[nodiscard]] std::optional<Lead> take_lead();

  [[nodiscard]] std::string describe() const;

  // Checks the invariants between two events. Empty if all hold (invariants.cpp).
  [[nodiscard]] std::string check_invariants() const;

 private:
  friend struct Tamper;  // injects errors in tests
  enum class State : std::uint8_t {
    idle,        // before begin
    pausing,     // no connection until retry_at_
    dialling,    // fresh node: all endpoints are tried (dialler_)
    connecting,  // link_ is being opened
    joining,     // Hello is sent
    attached,
    ended,
  };

  enum class Work : std::uint8_t {
    none,
    running,
    ending,    // the workers are being stopped
    finished,  // all workers exited successfully; the job is not over
  };

  struct Target {
    NodeId id = 0;  // 0 for an endpoint
    std::string name;
    std::string host;
    std::uint16_t port = 0;
    std::size_t endpoint = 0;  // index of the endpoint, if id is 0
  };

  // searching (finding_leader.cpp)
  [[nodiscard]] bool may_turn(TimePoint now) const;
  void recall(TimePoint now, const Memory& memory, NodeEffects& out);
  void forget_other_job(const Round& proposed);
  [[nodiscard]] bool may_found() const;
  [[nodiscard]] bool has_yielded() const;
  [[nodiscard]] bool founds_again() const;
  [[nodiscard]] bool needs_proof() const;
  [[nodiscard]] bool is_finding_leader() const;

  // True while we try to reconnect to the lost coordinator.
  [[nodiscard]] bool is_reconnecting() const {
    return lost_.id != 0 && target_.id == lost_.id && walk_.empty();
  }

  [[nodiscard]] const Round& members() const;
  [[nodiscard]] std::vector<Target> make_walk() const;
  void seek(TimePoint now, NodeEffects& out);
  void turn(TimePoint now, NodeEffects& out);
  void try_next(TimePoint now, NodeEffects& out);
  void dial_endpoints(TimePoint now, NodeEffects& out);
  void endpoint_failed(TimePoint now, std::size_t index, const std::string& why, NodeEffects& out);
  [[nodiscard]] Target endpoint_target(std::size_t index) const;
  void try_target(Target target, Duration timeout, NodeEffects& out);
  void try_failed(TimePoint now, LinkEnd how, const std::string& text, NodeEffects& out);
  void pause(TimePoint now, Duration pause);
  [[nodiscard]] Duration jitter(Duration pause);
  void ask_to_lead(TimePoint now, bool founder, NodeEffects& out);
  void drop_link(NodeEffects& out);
  [[nodiscard]] Hello hello(TimePoint now) const;
  void answered(TimePoint now, const RoundMessage& message, NodeEffects& out);
  void redirected(TimePoint now, const Redirect& redirect, NodeEffects& out);
  void refused(const Refuse& refuse, NodeEffects& out);
  void welcomed(TimePoint now, const Welcome& welcome, NodeEffects& out);
  void show_trouble(TimePoint now, NodeEffects& out);

  // following (link_core.cpp)
  void detach(TimePoint now, NodeEffects& out);
  void take_pong(const Pong& pong, NodeEffects& out);
  void grant(TimePoint sent, NodeEffects& out);
  void end_lease(NodeEffects& out);
  void take_proposal(TimePoint now, const Propose& propose, NodeEffects& out);
  [[nodiscard]] bool may_withdraw() const;
  void withdraw_proposal(NodeEffects& out);
  void record(NodeEffects& out) const;
  void accept_recorded(TimePoint now, RoundId round, NodeEffects& out);
  void record_failed(const RecordFailed& failed, NodeEffects& out);
  void take_start(TimePoint now, const Start& start, NodeEffects& out);
  void take_rounds(const Rounds& rounds, NodeEffects& out);
  void take_regroup(const Regroup& regroup, NodeEffects& out);
  void released(TimePoint now, const Redirect& redirect, NodeEffects& out);
  void workers_gone(TimePoint now, NodeEffects& out);
  void store_opened(TimePoint now, const StoreOpened& opened, NodeEffects& out);
  void store_failed(const StoreFailed& failed, NodeEffects& out);
  void worker_failed(TimePoint now, const WorkerFailedHere& failed, NodeEffects& out);
  void send_failure(TimePoint now, const WorkerFailedHere& failed, NodeEffects& out) const;
  void take_details(const Details& details, NodeEffects& out);
  void finish(TimePoint now, NodeEffects& out);
  void dismissed(TimePoint now, const Dismiss& why, NodeEffects& out);
  void leave(TimePoint now, const LeaveAsked& asked, NodeEffects& out);
  void tell_work(TimePoint now, NodeEffects& out);

  // --restart=rank (mends.cpp)
  void begin_mends(std::int32_t restarts);
  void lack(TimePoint now, const LackingHere& lacks, NodeEffects& out);
  void send_lacking(TimePoint now, NodeEffects& out) const;
  void mended(std::uint64_t epoch, NodeEffects& out);
  void tell_mends(TimePoint now, NodeEffects& out) const;
  void take_mend_message(const RoundMessage& message, NodeEffects& out);
  void take_mend(const Mend& mend, NodeEffects& out);
  void take_no_mend(const NoMend& refused, NodeEffects& out);
  void stop_workers(const Regroup& why, NodeEffects& out);
  void send(RoundMessage message, NodeEffects& out) const;
  void send_beat(TimePoint now, NodeEffects& out);
  [[nodiscard]] std::string check_work() const;
  template <class End>
  void end(End effect, NodeEffects& out);

  NodeSettings settings_;
  NodeInfo self_;
  std::uint64_t random_;
  State state_ = State::idle;
  std::optional<LinkId> link_;
  LinkId next_link_ = 1;

  // what we know about the job
  RoundPtr started_;
  RoundPtr accepted_;
  RoundPtr accepted_base_;
  RoundPtr replaced_;  // the round before `accepted_`; null once the Accept for `accepted_` is sent
  RoundPtr replaced_base_;
  std::int32_t accepted_rank_ = 0;  // our group rank in `accepted_`, also after it has started
  RoundPtr heard_of_;               // the job's running round if we are not a member of it
  RoundId recording_;               // the round to accept as soon as it is recorded
  Inheritance inherits_;            // what we inherited; unconfirmed if we know nothing else
  TimePoint quiet_at_{};            // until then, previous agents' leases may still be valid
  Work work_ = Work::none;
  bool lost_touch_ = false;
  bool leaving_ = false;
  std::string leave_reason_;
  bool leave_is_planned_ = false;
  bool replaced_by_spare_ = false;
  // Failures in the started round. They are resent after each Welcome.
  std::vector<WorkerFailedHere> failures_;
  std::vector<Details> details_;  // details of failures_
  TimePoint reserve_until_ = TimePoint::min();
  Mends mends_;                         // the last mend that we know, in all rounds
  std::optional<LackingHere> lacking_;  // our request for a mend, until it is answered
  std::uint64_t mended_ = 0;            // the last epoch that we reported with Mended

  // following
  NodeInfo coordinator_;
  TimePoint last_word_{};
  TimePoint accept_sent_{};
  // Sequence numbers and sending times of unanswered heartbeats.
  std::deque<std::pair<std::uint64_t, TimePoint>> beats_;
  std::optional<TimePoint> answered_;  // the sending time of the last answered heartbeat
  std::uint64_t beat_ = 0;
  std::uint64_t heard_ = 0;
  TimePoint beat_due_{};
  std::optional<TimePoint> fence_at_;

  // searching
  NodeInfo lost_;             // the coordinator that we followed last; id 0 if none
  NodeInfo led_by_;           // the leader that we followed or yielded to last; id 0 if none
  bool hosts_ = false;        // we have bound the first endpoint
  bool may_host_ = false;     // the first endpoint may be ours, but is not bound yet
  bool lost_proven_ = false;  // the lost coordinator is proven dead
  bool lost_released_ = false;
  TimePoint turn_at_{};  // a lease after the lost coordinator's last message
  GoneNodes gone_;
  EndpointDialler dialler_;
  std::optional<NodeInfo> hint_;
  Target target_;
  std::vector<Target> walk_;
  std::size_t walked_ = 0;
  int redirects_ = 0;
  Duration pause_ = kSeekPauseFirst;
  std::optional<TimePoint> retry_at_;
  std::optional<TimePoint> answer_by_;
  std::optional<TimePoint> join_by_;
  std::optional<Lead> lead_;
  std::string trouble_;
  std::string trouble_shown_;
  TimePoint trouble_due_{};
};

}  // namespace muster
