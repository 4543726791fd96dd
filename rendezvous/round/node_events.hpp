// SPDX-License-Identifier: Apache-2.0
// What can happen to the rendezvous of one node. Values; the shell (rendezvous/node) and the
// simulator step NodeCore with them.
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
  std::string text;  // "connection refused", "no such host 'nodeX'"
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

// A node that introduced itself as one of this job was refused, since its token is another one or
// its kind of proof is. It will not come again; `text` says why and what to do.
struct TokenRefused {
  std::string from;
  std::string text;
};

// -- from the agent of this node ---------------------------------------------------------------

// The first event but for ListenerKnown, which precedes it where the listener is known already.
// `hosts`: this node has bound the first endpoint and so may found the job. `may_host`: it has not,
// but the endpoint may be this machine's: another program listens there, or its name is unknown.
struct NodeStarted {
  bool hosts = false;
  bool may_host = false;
  // Of the agents before this one; none without a record, or while one of them may still run.
  std::optional<Memory> memory{};
};

// Answer to BindEndpoint: this node has bound the first endpoint.
struct EndpointBound {};

// Our own listener's place is known (before the first LinkOpened at the latest).
struct ListenerKnown {
  std::string address;
  std::uint16_t port = 0;
};

// Answers to RecordRound. `round`: the one that was accepted.
struct RoundRecorded {
  RoundId round;
};

struct RecordFailed {
  RoundId round;
  Error error;
};

// The user vouches that lost members of this name are dead, with their workers. Only a leader that
// has lost such a member acts on it (NodeCore::why_not_forget).
struct ForgetNode {
  std::string name;
};

// No worker of ours is alive.
struct WorkersGone {};

// Answer to OpenStore.
struct StoreOpened {
  RoundId round;
  std::string address;  // what the workers dial
  std::uint16_t port = 0;
  LeaderOffer offer{};
};

struct StoreFailed {
  RoundId round;
  Error error;
};

// A worker failed. `message.age` and `message.consequence` are filled in by the core: whether this
// failure may be the cause of the round's end is its decision (failure_proof.hpp).
struct WorkerFailedHere {
  Failed message;
  TimePoint seen_at{};                 // its end
  std::optional<TimePoint> raised_at;  // its error file: the exception was raised then or earlier
  bool was_stopped = false;            // it ended as a request to stop ends a worker
  bool lost_connection = false;        // to another worker, and was not stopped before
};

// Evidence of a failure that was told before; the core sends it if the failure may be the cause.
struct DetailsKnown {
  Details message;
};

// All our workers of the round ended well and are gone.
struct WorkersFinished {};

// We were told to end. The workers are being stopped; WorkersGone follows.
struct LeaveAsked {
  std::string reason;
};

// A client of our store comes from another machine: is it of the job? Answer: VouchKnown, with the
// same number, which counts up.
struct VouchWanted {
  std::uint64_t client = 0;
  StoreClient connection;
};

// Answer to FindOwner.
struct OwnerFound {
  Vouch question;
  VouchAnswer answer = VouchAnswer::no_socket;
};

// Our workers have made no progress for too long. HearVerdict follows as a rule; who hears nothing
// asks again.
struct StalledHere {};

// Answer to LookNow.
struct LookedHere {
  Looked message;
};

// Answer to JudgeNow.
struct JudgedHere {
  Judged message;
};

// How long our workers have waited for others; the core fills in the round. Lost where nobody
// leads.
struct WaitedHere {
  Waited message;
};

// next_deadline() has come.
struct NodeTick {};

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
                               DetailsKnown,
                               WorkersFinished,
                               LeaveAsked,
                               VouchWanted,
                               OwnerFound,
                               StalledHere,
                               LookedHere,
                               JudgedHere,
                               WaitedHere,
                               NodeTick>;

}  // namespace muster
