// SPDX-License-Identifier: Apache-2.0
// Rendezvous: the interface through which an agent agrees on rounds with other nodes. The agent
// reports its workers' state as AgentEvents and receives replies through NodeOwner. RendezvousNode
// is the real implementation; tests of the agent use fakes. Resource; one thread.
#pragma once

#include "base/error.hpp"
#include "rendezvous/node/node_owner.hpp"
#include "rendezvous/node/store_carrier.hpp"
#include "rendezvous/round/node_events.hpp"
#include "rendezvous/server/server.hpp"

#include <memory>
#include <string>
#include <variant>

namespace muster {

// The events that an agent may report; node_events.hpp explains each event. The implementation
// itself produces network and clock events.
using AgentEvent = std::variant<WorkersGone,
                                StoreOpened,
                                StoreFailed,
                                WorkerFailedHere,
                                Details,
                                LackingHere,
                                MendedHere,
                                WorkersFinished,
                                LeaveAsked,
                                VouchWanted,
                                OwnerFound,
                                InquireHere,
                                LookedHere,
                                JudgedHere,
                                WaitedHere>;

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual void tell(AgentEvent event) = 0;

  // Handles expired deadlines without waiting for the timer. An agent that was paused may notice
  // that its workers were killed before it notices that its lease has expired.
  virtual void check_deadlines() = 0;

  // The address at which other nodes reach this node. Empty until it is known.
  [[nodiscard]] virtual const std::string& address() const = 0;

  // For the static backend: opens the workers' store on the first endpoint. The store and the
  // rendezvous share one socket, and the store accepts connections for both until store_closed is
  // called. Error: the endpoint is not ours.
  [[nodiscard]] virtual Result<std::unique_ptr<StoreServer>> open_store_on_endpoint() = 0;
  virtual void store_closed() = 0;

  // Declares a lost member with this name dead (ForgetNode). Returns an error with the reason if
  // this has no effect on this node.
  [[nodiscard]] virtual Result<void> forget(const std::string& name) = 0;

  // For --store-via=proxy; null in some tests.
  [[nodiscard]] virtual StoreCarrier* carrier() = 0;
};

}  // namespace muster
