// SPDX-License-Identifier: Apache-2.0
// The input events of one node's rendezvous. The shell (rendezvous/node) and the simulator step
// NodeCore with them. Values.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/round/node_effects.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

namespace muster {

// -- from the network --------------------------------------------------------------------------

// A connection that we requested is established.
struct LinkOpened {
  LinkId link = 0;
};

// The connection failed or was closed, but not by the core itself.
enum class LinkEnd : std::uint8_t {
  refused,      // the remote kernel reports that no process listens there
  closed,       // closed by the peer, or by its kernel after its death
  unreachable,  // no response, no route, or connect timeout
  no_name,      // name resolution failed
  broken,       // protocol error; the shell has closed the link
};

struct LinkClosed {
  LinkId link = 0;
  LinkEnd how = LinkEnd::closed;
  std::string text;  // "connection refused", "no such host 'nodeX'"
};

// A peer with this address connected to one of our listeners.
struct LinkAccepted {
  LinkId link = 0;
  std::string from;
};

struct MessageReceived {
  LinkId link = 0;
  std::shared_ptr<const RoundMessage> message;
};

// A node that introduced itself as a node of this job was refused, because its token or its kind of
// proof differs. It does not retry. `text` contains the reason and what to do.
struct TokenRefused {
  std::string from;
  std::string text;
};

// -- from the agent of this node ---------------------------------------------------------------

// The first event, except that ListenerKnown precedes it if the listener is already known. `hosts`:
// this node has bound the first endpoint, so it may found the job. `may_host`: the endpoint is not
// bound but may be on this host, because another program listens there or its name is unresolved.
struct NodeStarted {
  bool hosts = false;
  bool may_host = false;
  // Recorded by previous agents. Unset if there is no record, or if a previous agent may still be
  // running.
  std::optional<Memory> memory{};
};

// Reply to BindEndpoint: this node has bound the first endpoint.
struct EndpointBound {};

// The address of our own listener is known. This event precedes the first LinkOpened.
struct ListenerKnown {
  std::string address;
  std::uint16_t port = 0;
};

// Replies to RecordRound. `round` is the accepted round.
struct RoundRecorded {
  RoundId round;
};

struct RecordFailed {
  RoundId round;
  Error error;
};

// The user confirms that lost members with this name are dead, including their workers. Only a
// leader that has lost such a member reacts (NodeCore::why_not_forget).
struct ForgetNode {
  std::string name;
};

// All local workers are dead.
struct WorkersGone {};

// Reply to OpenStore.
struct StoreOpened {
  RoundId round;
  std::string address;  // address for the workers
  std::uint16_t port = 0;
  LeaderOffer offer{};
};

struct StoreFailed {
  RoundId round;
  Error error;
};

// A worker failed. The core sets `message.age` and `message.consequence`, because it decides
// whether this failure may be the cause of the round's end (failure_proof.hpp).
struct WorkerFailedHere {
  Failed message;
  TimePoint seen_at{};                 // time of the worker's exit
  std::optional<TimePoint> raised_at;  // latest time of the exception, from its error file
  bool was_stopped = false;            // exited because of a stop request
  bool lost_connection = false;        // lost its connection to a worker before any stop request
};

// All local workers of the round have exited successfully.
struct WorkersFinished {};

// This node was asked to leave. Its workers are being stopped, and WorkersGone follows.
struct LeaveAsked {
  std::string reason;
  bool is_planned = false;  // the other nodes saved at the same step
};

// A client of our store has connected from another host. We must verify that it belongs to the job.
// Reply: VouchKnown with the same number. Numbers increase.
struct VouchWanted {
  std::uint64_t client = 0;
  StoreClient connection;
};

// Reply to FindOwner.
struct OwnerFound {
  Vouch question;
  VouchAnswer answer = VouchAnswer::no_socket;
};

// Starts an inquiry. HearVerdict usually follows. If it does not, the agent repeats the request.
struct InquireHere {
  Topic topic = Topic::hang;
  std::string request{};
};

// Reply to LookNow.
struct LookedHere {
  Looked message;
};

// Reply to JudgeNow.
struct JudgedHere {
  Judged message;
};

// How long our workers have waited for others. The core sets the round. Dropped if there is no
// leader.
struct WaitedHere {
  Waited message;
};

// The deadline from next_deadline() has passed.
struct NodeTick {};

// Details are the evidence for a failure that was reported earlier. The core sends them if the
// failure may be the cause.
using NodeEvent = std::variant<LinkOpened,
                               LinkClosed,
                               LinkAccepted,
                               MessageReceived,
                               TokenRefused,
                               NodeStarted,
                               EndpointBound,
                               RoundRecorded,
                               RecordFailed,
                               ForgetNode,
                               ListenerKnown,
                               WorkersGone,
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
                               WaitedHere,
                               NodeTick>;

}  // namespace muster
