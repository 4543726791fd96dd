// SPDX-License-Identifier: Apache-2.0
// Actions that one node's rendezvous requests, to be executed in order. Values; the shell
// (rendezvous/node) and the simulator execute them.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/wire/memory.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster {

// One connection in either direction. The core assigns ids to outgoing connections (odd), the shell
// to incoming ones (even, from 2). Ids are never reused. 0 is the node's connection to itself.
using LinkId = std::uint64_t;

// -- to the network ----------------------------------------------------------------------------

// Host: a name (as typed) or a numeric address. LinkOpened or LinkClosed follows within `timeout`.
struct OpenLink {
  LinkId link = 0;
  std::string host;
  std::uint16_t port = 0;
  Duration timeout{};
};

// Messages on one link are delivered in order.
struct SendMessage {
  LinkId link = 0;
  std::shared_ptr<const RoundMessage> message;
};

// Closes the link after all sent messages are flushed.
struct CloseLink {
  LinkId link = 0;
};

// Our coordinator has sent the job's own key. Use it for later connections.
struct UseJobKey {
  std::string secret;
};

// -- to the agent ------------------------------------------------------------------------------

// We lead a running job: listen on our other endpoints too, so that newcomers find the job.
struct HostEndpoints {};

// No leader answers at the first endpoint, which may be ours: bind it. EndpointBound on success.
struct BindEndpoint {};

// Replace the record with this. Reply: RoundRecorded or RecordFailed.
struct RecordRound {
  Memory memory;
};

// We are group rank 0: open the workers' store, or hold a port. Reply: StoreOpened or StoreFailed.
struct OpenStore {
  RoundId round;
};

// Start the workers.
struct RunRound {
  RoundPtr round;
  std::int32_t group_rank = 0;
  std::string master_addr;
  std::uint16_t master_port = 0;
  LeaderOffer offer{};
};

// Stop the workers gracefully; WorkersGone follows.
struct StopWorkers {
  std::string reason;
  RankSpan gone{};  // ranks whose exit is the reason
};

// Deadline after which the agent's guard kills its workers; TimePoint::max() for never. Later ones
// replace it. A running agent gets FenceWorkers a little earlier.
struct LeaseUntil {
  TimePoint when{};
};

// We have been out of contact for too long: kill the workers at once. WorkersGone follows.
struct FenceWorkers {
  std::string reason;
};

// Status while we wait for a round: which nodes are present and, if we cannot connect, why.
struct ShowRollCall {
  RollCall call;
  std::string trouble;  // "cannot reach h1:29400: connection refused"; empty if none
};

// Another node asks whether this connection belongs to one of our processes. Reply: OwnerFound.
struct FindOwner {
  Vouch question;
};

// Whether a client of our store is admitted and, if not, why.
struct VouchKnown {
  std::uint64_t client = 0;
  std::optional<Error> refused;
};

// The coordinator wants to know what our workers are doing. Reply: LookedHere.
struct LookNow {
  Look question;
};

// A node's participation in an inquiry.
enum class Presence : std::uint8_t {
  answered,
  finished,  // all its workers exited successfully
  silent,    // not heard from
  late,      // alive, but has not answered
};

struct NodeAnswer {
  std::string name;
  RankSpan ranks{};
  Presence presence = Presence::late;
  Duration silent_for{};  // for late: time since it was asked
  std::string findings{};
  bool operator==(const NodeAnswer&) const = default;
};

// We lead and have asked all nodes, in group rank order. Reply: JudgedHere.
struct JudgeNow {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::vector<NodeAnswer> nodes;
};

// The result of an inquiry, delivered once to each node.
struct HearVerdict {
  Judged said;
};

// We lead: how long the ranks of this member have waited.
struct HearWaits {
  std::string node;
  RankSpan ranks{};
  Waited said;
};

// All our workers have exited and the job no longer needs this node: exit 0.
struct EndFinished {};

// The job is over.
struct EndClosed {
  Close close;
};

// This node cannot take part: it was refused, or found no other node in time.
struct EndFailed {
  Error error;
};

// A LeaveAsked is complete: no other node needs us.
struct EndLeft {};

// A line for the log.
struct SayNode {
  std::string text;
};

using NodeEffect = std::variant<OpenLink,
                                SendMessage,
                                CloseLink,
                                HostEndpoints,
                                BindEndpoint,
                                UseJobKey,
                                RecordRound,
                                OpenStore,
                                RunRound,
                                StopWorkers,
                                LeaseUntil,
                                FenceWorkers,
                                ShowRollCall,
                                FindOwner,
                                VouchKnown,
                                LookNow,
                                JudgeNow,
                                HearVerdict,
                                HearWaits,
                                EndFinished,
                                EndClosed,
                                EndFailed,
                                EndLeft,
                                SayNode>;

using NodeEffects = std::vector<NodeEffect>;

}  // namespace muster
