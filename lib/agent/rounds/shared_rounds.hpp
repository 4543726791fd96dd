// SPDX-License-Identifier: Apache-2.0
// SharedRounds: one node's part in a multi-node job. It is the supervisor's round source and
// connects the supervisor to the rendezvous, which decides when to run and when to stop. Opens the
// workers' store if this node has rank 0, reports failures with their evidence, and renews the
// guard's lease. Owned by the agent; lives on its loop. Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/failures/error_file.hpp"
#include "agent/rounds/inquiry_listener.hpp"
#include "agent/rounds/wait_listener.hpp"
#include "agent/sinks/roll_call_lines.hpp"
#include "agent/store/reserved_ports.hpp"
#include "agent/store/store_admission.hpp"
#include "agent/store/store_proxy.hpp"
#include "agent/supervisor/round_source.hpp"
#include "agent/workers/run_folder.hpp"
#include "io/admission.hpp"
#include "plan/assignment.hpp"
#include "process/guard/lease_timer.hpp"
#include "rendezvous/node/node_owner.hpp"
#include "rendezvous/node/rendezvous.hpp"

#include <asio/io_context.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// Limit on texts from other nodes.
inline constexpr std::size_t kNodeTextMax = 500;

// Limit on the suspected nodes in a report.
inline constexpr std::size_t kSuspectsMax = 64;

// The parts of the agent that the rounds need.
struct SharedRoundsParts {
  RoundUser& user;
  RunFolder& run_folder;
  EventStream& events;
  const RollCallLines& roll_call;
  Admission& admission;  // decides who may use the workers' store
  JobSockets& sockets;
};

class SharedRounds final : public RoundSource, public NodeOwner {
 public:
  SharedRounds(asio::io_context& loop, const AgentSetup& setup, const SharedRoundsParts& parts);

  // `rendezvous` must have this object as its owner and must not have called this object yet.
  // `lease` is the guard's timer, or null.
  void start(std::unique_ptr<Rendezvous> rendezvous, const LeaseTimer* lease);

  // Admits remote clients to the workers' store if their nodes vouch for them.
  [[nodiscard]] Admission& vouching() { return vouching_; }

  // Sets the object that takes part in inquiries about this topic. It must outlive the rounds.
  void use(Topic topic, InquiryListener& listener) {
    listeners_[static_cast<std::size_t>(topic)] = &listener;
  }

  // Sets the object that receives the wait times of the ranks on all nodes if this node is the
  // leader.
  void use(WaitListener& listener) { waits_ = &listener; }

  // Sends InquireHere, LookedHere, JudgedHere or WaitedHere.
  void tell(AgentEvent event) { node_->tell(std::move(event)); }

  // The nodes on which rounds failed first, if this node leads or led.
  [[nodiscard]] const std::vector<SuspectedNode>& suspects() const { return suspects_; }

  // For musterctl forget: declares a lost member dead. Returns an empty string on success, or else
  // the reason.
  friend std::string forget(SharedRounds* rounds, const std::string& node);

  // Implements RoundSource. Waiting for a round starts as soon as the previous round is over.
  void await_round(int /*attempt*/) override {}

  void tell_gone() override;
  void report_failure(const WorkerFailure& failure) override;

  // --restart=rank: shared_mends.cpp.
  void ask_mend(const AskMend& ask) override;
  void tell_ready(std::uint64_t epoch) override;
  void end_mend(const std::string& reason) override;

  // Does nothing yet: the other nodes are notified of the success only once no process remains.
  void report_success() override {}

  void report_finished() override;
  void leave_round(const LeaveRound& asked) override;
  void check_lease() override;
  void close() override;

  // NodeOwner
  void run_round(const RunRound& run) override;
  void run_mend(const RunMend& run) override;
  void refuse_mend(const RefuseMend& refused) override;
  void stop_workers(const StopWorkers& stop) override;
  void fence_workers(const std::string& reason) override;
  void lease_until(TimePoint when) override;
  void open_store(RoundId round) override;
  void find_owner(const FindOwner& question) override;
  void vouch_known(const VouchKnown& known) override;
  void inquire(const InquiryStep& step) override;
  void hear_waits(const HearWaits& heard) override;
  void hear_suspect(const SuspectNode& suspect) override;
  void show_roll_call(const ShowRollCall& show) override;
  void log(LogLevel level, const std::string& text) override;
  void ended(const NodeEnd& end) override;

 private:
  // The store's address for workers. If `server` is null, one of the workers serves the store at
  // this address.
  struct Store {
    std::unique_ptr<StoreServer> server;
    std::string address;
    std::uint16_t port = 0;
  };

  [[nodiscard]] Result<Store> make_store();
  [[nodiscard]] Result<StoreOpened> prepare_lead(RoundId round);
  [[nodiscard]] Result<Assignment> assignment_of(const RunRound& run);
  void close_store();

  [[nodiscard]] bool is_proxy() const { return setup_.config.store_via == StoreVia::proxy; }

  [[nodiscard]] Result<void> open_proxy(RunRound& run);
  [[nodiscard]] RoundToRun plan(const RunRound& run, event::MembershipChange change);
  void begin_waiting();
  [[nodiscard]] Result<MendToRun> mend_to_run(const RunMend& run);
  void tell_mend(const RunMend& run);

  asio::io_context& loop_;
  const AgentSetup& setup_;
  RoundUser& user_;
  RunFolder& run_folder_;
  EventStream& events_;
  const RollCallLines& roll_call_;
  Admission& admission_;
  const LeaseTimer* lease_ = nullptr;
  std::array<InquiryListener*, kTopics> listeners_{};  // by topic; null if it is off
  WaitListener* waits_ = nullptr;
  std::unique_ptr<Rendezvous> node_;
  VouchedAdmission vouching_;  // must outlive the store
  SocketWitness witness_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<StoreProxy> proxy_;
  RoundPtr round_;      // the workers' current round, or else their last round
  Assignment current_;  // of round_; its epoch is that of the last mend
  std::optional<TimePoint> lease_end_;
  ReservedPorts ports_;
  std::vector<SuspectedNode> suspects_;
  bool overslept_ = false;  // the guard detected before us that the lease had expired
};

// `rounds` is null in a single-node job.
[[nodiscard]] std::string forget(SharedRounds* rounds, const std::string& node);

}  // namespace muster
