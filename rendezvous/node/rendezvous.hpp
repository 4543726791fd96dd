// SPDX-License-Identifier: Apache-2.0
// Rendezvous: one node's part in agreeing on rounds, as its agent sees it. The agent tells what its
// workers do, in AgentEvents; the answers come through NodeOwner. RendezvousNode is the real one;
// tests of the agent have fakes. Resource; one thread.
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

// What an agent may tell, and nothing else: the network's events and the clock's belong to the
// implementation. node_events.hpp says what each means.
using AgentEvent = std::variant<WorkersGone,
                                StoreOpened,
                                StoreFailed,
                                WorkerFailedHere,
                                DetailsKnown,
                                WorkersFinished,
                                LeaveAsked,
                                VouchWanted,
                                OwnerFound,
                                StalledHere,
                                LookedHere,
                                JudgedHere,
                                WaitedHere>;

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;

  virtual void tell(AgentEvent event) = 0;

  // Acts on the deadlines that have passed, without waiting for the timer. For an agent that was
  // stopped itself: it may see that its workers were killed before it sees that its lease is over.
  virtual void check_deadlines() = 0;

  // Where the others reach this node; empty as long as that is not known.
  [[nodiscard]] virtual const std::string& address() const = 0;

  // Static back end: the workers' store on the first endpoint, which it shares with the nodes. It
  // accepts there for both until store_closed is called. Errors: the endpoint is not ours.
  [[nodiscard]] virtual Result<std::unique_ptr<StoreServer>> open_store_on_endpoint() = 0;
  virtual void store_closed() = 0;

  // Declares a lost member of this name dead (ForgetNode). Error: why that has no effect here.
  [[nodiscard]] virtual Result<void> forget(const std::string& name) = 0;

  // For --store-via=proxy; null in tests that have none.
  [[nodiscard]] virtual StoreCarrier* carrier() = 0;
};

}  // namespace muster
