// SPDX-License-Identifier: Apache-2.0
// What can happen to the rendezvous of one node (past tense) and what it wants done (imperative).
// Values. The shell (server/node) and the simulator both stand around NodeCore with these.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace muster {

// One connection, of either direction. Ids of outgoing ones are given by the core (odd), those of
// incoming ones by the shell (even, from 2). Never used twice. 0 is the node's talk to itself.
using LinkId = std::uint64_t;

// -- from the network --------------------------------------------------------------------------

// A connection that we asked for is there.
struct LinkOpened {
  LinkId link = 0;
};

// It could not be made, or it ended. A connection that the core closed gives no such event.
enum class LinkEnd : std::uint8_t {
  refused,      // the other kernel says that nobody listens there
  closed,       // the other side ended it, or its kernel did after its death
  unreachable,  // no answer, no route, time-out of the connection
  no_name,      // the name could not be resolved
  broken,       // bytes that break the format; the shell has closed it
};

struct LinkClosed {
  LinkId link = 0;
  LinkEnd how = LinkEnd::closed;
  std::string words;  // "connection refused", "no such host 'nodeX'"
};

// Somebody connected to one of our listeners, from this address.
struct LinkAccepted {
  LinkId link = 0;
  std::string from;
};

struct MessageReceived {
  LinkId link = 0;
  std::shared_ptr<const RoundMessage> message;
};

// -- from the agent of this node ---------------------------------------------------------------

// First event. `hosts`: this node has bound the first endpoint and so may found the job.
struct NodeStarted {
  bool hosts = false;
};

// Our own listener's place is known (before the first LinkOpened at the latest).
struct ListenerKnown {
  std::string address;
  std::uint16_t port = 0;
};

// No worker of ours is alive.
struct WorkersGone {};

// Answer to OpenStore.
struct StoreOpened {
  RoundId round;
  std::string address;  // what the workers dial
  std::uint16_t port = 0;
};

struct StoreFailed {
  RoundId round;
  Error error;
};

// A worker failed; `message.age` is filled by the core from `seen_at`.
struct WorkerFailedHere {
  Failed message;
  TimePoint seen_at{};
};

struct DetailsKnown {
  Details message;
};

// All our workers of the round ended well and are gone.
struct WorkersFinished {};

// We were told to end. The workers are being stopped; WorkersGone follows.
struct LeaveAsked {
  std::string reason;
};

// next_deadline() has come.
struct NodeTick {};

using NodeEvent = std::variant<LinkOpened,
                               LinkClosed,
                               LinkAccepted,
                               MessageReceived,
                               NodeStarted,
                               ListenerKnown,
                               WorkersGone,
                               StoreOpened,
                               StoreFailed,
                               WorkerFailedHere,
                               DetailsKnown,
                               WorkersFinished,
                               LeaveAsked,
                               NodeTick>;

// -- to the network ----------------------------------------------------------------------------

// Host may be a name (an endpoint as typed) or numeric. LinkOpened or LinkClosed follows, within
// `patience`.
struct OpenLink {
  LinkId link = 0;
  std::string host;
  std::uint16_t port = 0;
  Duration patience{};
};

// Messages of one link arrive in the order in which they were given out.
struct SendMessage {
  LinkId link = 0;
  std::shared_ptr<const RoundMessage> message;
};

// After what was sent is out.
struct CloseLink {
  LinkId link = 0;
};

// -- to the agent ------------------------------------------------------------------------------

// We have become the coordinator of a running job: listen on those endpoints that are ours too, so
// that newcomers find the job.
struct HostEndpoints {};

// We are group rank 0 of this proposal: open the workers' store. Answer: StoreOpened, StoreFailed.
struct OpenStore {
  RoundId round;
};

// Start the workers.
struct RunRound {
  RoundPtr round;
  std::int32_t group_rank = 0;
  std::string master_addr;
  std::uint16_t master_port = 0;
};

// Stop the workers in good order; WorkersGone is expected.
struct StopWorkers {
  std::string reason;
};

// Until this moment workers may run without another word of ours. Later ones replace it. At the
// moment itself FenceWorkers is given out; whoever watches the agent kills them a little later.
struct LeaseUntil {
  TimePoint when{};
};

// We have lost touch for too long: kill the workers at once. WorkersGone is expected.
struct FenceWorkers {
  std::string reason;
};

// While we wait for a round: who is there and, if we cannot even connect, why.
struct ShowRollCall {
  RollCall call;
  std::string trouble;  // "cannot reach h1:29400: connection refused"; empty where there is none
};

// All our workers are gone and the job does not need this node any more: exit 0.
struct EndFinished {};

// The job is over.
struct EndClosed {
  Close close;
};

// This node cannot take part: refused, or nobody met in time.
struct EndFailed {
  Error error;
};

// A LeaveAsked has been carried out: nobody needs us.
struct EndLeft {};

// One line for a log.
struct SayNode {
  std::string words;
};

using NodeEffect = std::variant<OpenLink,
                                SendMessage,
                                CloseLink,
                                HostEndpoints,
                                OpenStore,
                                RunRound,
                                StopWorkers,
                                LeaseUntil,
                                FenceWorkers,
                                ShowRollCall,
                                EndFinished,
                                EndClosed,
                                EndFailed,
                                EndLeft,
                                SayNode>;

using NodeEffects = std::vector<NodeEffect>;

}  // namespace muster
