// SPDX-License-Identifier: Apache-2.0
// SharedRounds: one node's part in a job of many. Stands between the rendezvous, which says when to
// run and when to stop, and the supervisor, whose source of rounds it is: opens the workers' store
// where this node has the first rank, tells of failures with their evidence, keeps the guard's
// lease. Owned by the agent; lives on its loop. Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/failures/error_file.hpp"
#include "agent/rounds/hang_listener.hpp"
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

#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace muster {

// What the rounds need of the agent around them.
struct SharedRoundsParts {
  RoundUser& user;
  RunFolder& run_folder;
  EventStream& events;
  const RollCallLines& roll_call;
  Admission& admission;  // who may use the workers' store
  JobSockets& sockets;
};

class SharedRounds final : public RoundSource, public NodeOwner {
 public:
  SharedRounds(asio::io_context& loop, const AgentSetup& setup, const SharedRoundsParts& parts);

  // `rendezvous` was started with this object as its owner and has not called it yet. `lease`: the
  // guard's timer; null where there is none.
  void start(std::unique_ptr<Rendezvous> rendezvous, const LeaseTimer* lease);

  // Who of other machines may use the workers' store: whom their nodes vouch for.
  [[nodiscard]] Admission& vouching() { return vouching_; }

  // --hang-timeout: who looks, judges and hears the verdict; it outlives the rounds.
  void use(HangListener& listener) override { hangs_ = &listener; }

  // Who hears what the ranks of all nodes have waited, where this node leads.
  void use(WaitListener& listener) { waits_ = &listener; }

  // StalledHere, LookedHere, JudgedHere, WaitedHere.
  void tell(AgentEvent event) { node_->tell(std::move(event)); }

  // For musterctl forget: declares a lost member dead. Empty: done; else the reason why not.
  friend std::string forget(SharedRounds* rounds, const std::string& node);

  // RoundSource. A round is awaited from the moment at which the one before is over.
  void await_round(int /*attempt*/) override {}

  void tell_gone() override;
  void report_failure(const WorkerFailure& seen, Duration run_time) override;

  // The other nodes learn of it when nothing is left.
  void report_success() override {}

  void report_finished() override;
  void leave_round(const std::string& reason) override;
  void check_lease() override;
  void close() override;

  // NodeOwner
  void run_round(const RunRound& run) override;
  void stop_workers(const StopWorkers& stop) override;
  void fence_workers(const std::string& reason) override;
  void lease_until(TimePoint when) override;
  void open_store(RoundId round) override;
  void find_owner(const FindOwner& question) override;
  void vouch_known(const VouchKnown& known) override;
  void inquire(const InquiryStep& step) override;
  void hear_waits(const HearWaits& heard) override;
  void show_roll_call(const ShowRollCall& show) override;
  void log(LogLevel level, const std::string& text) override;
  void ended(const NodeEnd& end) override;

 private:
  // Where the workers dial; without a server one of them serves it there.
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
  [[nodiscard]] Failed message_of(const WorkerFailure& failure, Duration run_time) const;
  void begin_waiting();

  asio::io_context& loop_;
  const AgentSetup& setup_;
  RoundUser& user_;
  RunFolder& run_folder_;
  EventStream& events_;
  const RollCallLines& roll_call_;
  Admission& admission_;
  const LeaseTimer* lease_ = nullptr;
  HangListener* hangs_ = nullptr;
  WaitListener* waits_ = nullptr;
  std::unique_ptr<Rendezvous> node_;
  VouchedAdmission vouching_;  // outlives the store
  SocketWitness witness_;
  std::unique_ptr<StoreServer> store_;
  std::unique_ptr<StoreProxy> proxy_;
  RoundPtr round_;  // that the workers run in, or ran in last
  std::optional<TimePoint> lease_end_;
  ReservedPorts ports_;
  bool overslept_ = false;  // we noticed the lease's end later than the guard
};

// `rounds`: null in a job of one node.
[[nodiscard]] std::string forget(SharedRounds* rounds, const std::string& node);

}  // namespace muster
