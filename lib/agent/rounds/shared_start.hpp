// SPDX-License-Identifier: Apache-2.0
// SharedStart: what a node of a multi-node job does before its first round: it tries MUNGE,
// resolves the hosts that the platform names, and starts the rendezvous node. Owned by the agent;
// lives on its loop. Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "agent/events/event_stream.hpp"
#include "agent/rounds/munge_service.hpp"
#include "agent/rounds/named_hosts.hpp"
#include "agent/rounds/shared_rounds.hpp"
#include "agent/sinks/node_history_file.hpp"
#include "base/error.hpp"
#include "io/user_admission.hpp"
#include "process/guard/lease_timer.hpp"
#include "rendezvous/node/node_sockets.hpp"
#include "rendezvous/node/rendezvous_node.hpp"
#include "rendezvous/node/round_record.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <utility>

namespace muster {

// State that the agent shares with its guard in a multi-node job. main creates it before it calls
// run_guarded.
struct SharedWithGuard {
  NodeSockets sockets;
  const LeaseTimer* lease = nullptr;
  std::shared_ptr<const RoundRecord> record{};
};

// The objects that SharedStart uses.
struct SharedStartParts {
  EventStream& events;
  SharedRounds& rounds;
  UserAdmission& admission;  // decides which agents may connect
  SharedWithGuard& with_guard;
  NodeHistoryFile& node_history;
  // The job may end while a lookup still runs. Then nothing is started.
  std::function<bool()> is_over;
};

class SharedStart {
 public:
  SharedStart(asio::io_context& loop, const AgentSetup& setup, SharedStartParts parts)
      : loop_(loop), setup_(setup), parts_(std::move(parts)) {}

  // Calls `done` once, at once or later, unless the job has ended in the meantime.
  void start(std::function<void(const Result<void>&)> done);

 private:
  void try_munge();
  void find_hosts(bool with_munge);
  [[nodiscard]] Result<void> join(RendezvousSettings settings);

  asio::io_context& loop_;
  const AgentSetup& setup_;
  SharedStartParts parts_;
  std::function<void(const Result<void>&)> done_;
  std::optional<MungeService> munge_;
  std::optional<NamedHosts> named_hosts_;
};

}  // namespace muster
