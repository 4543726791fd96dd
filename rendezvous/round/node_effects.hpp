// SPDX-License-Identifier: Apache-2.0
// Actions of one node's rendezvous, for the shell (rendezvous/node) or the simulator. Values.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"
#include "rendezvous/round/mend_steps.hpp"
#include "rendezvous/round/node_ends.hpp"
#include "rendezvous/wire/memory.hpp"
#include "rendezvous/wire/round_messages.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster {

// Odd if the core opened the link, even if the shell accepted it, 0 for this node. Never reused.
using LinkId = std::uint64_t;

// -- to the network ----------------------------------------------------------------------------

// `host`: a name as typed or a numeric address. LinkOpened or LinkClosed follows within `timeout`.
struct OpenLink {
  LinkId link = 0;
  std::string host;
  std::uint16_t port = 0;
  Duration timeout{};
};

// The messages on one link are delivered in order.
struct SendMessage {
  LinkId link = 0;
  std::shared_ptr<const RoundMessage> message;
};

// Closes the link once all messages are flushed.
struct CloseLink {
  LinkId link = 0;
};

struct UseJobKey {
  std::string secret;  // our coordinator has sent it; use it for later connections
};

// -- to the agent ------------------------------------------------------------------------------

// We lead a running job: also listen on our other endpoints, so that newcomers find the job.
struct HostEndpoints {};

// No leader answers at the first endpoint, which may be ours. Reply: EndpointBound.
struct BindEndpoint {};

// Replace the record with this one. Reply: RoundRecorded or RecordFailed.
struct RecordRound {
  Memory memory;
};

// We have group rank 0: open the workers' store, or hold a port. Reply: StoreOpened or StoreFailed.
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

// Stop the workers gracefully. WorkersGone follows.
struct StopWorkers {
  std::string reason;
  RankSpan gone{};          // ranks whose exit is the reason for the stop
  bool is_planned = false;  // the workers save and exit on their own
};

// When the guard kills the workers. A running agent receives FenceWorkers a little earlier.
struct LeaseUntil {
  TimePoint when{};
};

// We have been out of contact for too long: kill the workers immediately. WorkersGone follows.
struct FenceWorkers {
  std::string reason;
};

// Status while we wait for a round: the nodes that are present, or why we cannot connect.
struct ShowRollCall {
  RollCall call;
  std::string trouble;  // "cannot reach h1:29400: connection refused"; empty if none
};

// Does this connection belong to one of our processes? Reply: OwnerFound.
struct FindOwner {
  Vouch question;
};

// The result for a client of our store: admitted, or refused with a reason.
struct VouchKnown {
  std::uint64_t client = 0;
  std::optional<Error> refused;
};

// The coordinator asks what our workers are doing. Reply: LookedHere.
struct LookNow {
  Look question;
};

// A node's part in an inquiry.
enum class Presence : std::uint8_t {
  answered,
  finished,  // all its workers exited successfully
  silent,    // no messages from the node
  late,      // alive, but has not answered
};

struct NodeAnswer {
  std::string name;
  RankSpan ranks{};
  Presence presence = Presence::late;
  Duration silent_for{};  // time since the query, for a late node
  std::string findings{};
  bool operator==(const NodeAnswer&) const = default;
};

// We lead and have queried all nodes; the answers are in group rank order. Reply: JudgedHere.
struct JudgeNow {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::vector<NodeAnswer> nodes;
  Topic topic = Topic::hang;
  std::string request{};
};

// The result of an inquiry. Each node receives it once.
struct HearVerdict {
  Judged said;
};

// Sent to the agent of the leader: how long this member's ranks have waited for other ranks.
struct HearWaits {
  std::string node;
  RankSpan ranks{};
  Waited said;
};

// Sent to the agent of the leader: rounds failed first on this node.
struct SuspectNode {
  std::string node;
  std::string cause;         // the kind of the last failure
  std::string text;          // for users
  bool is_replaced = false;  // a spare takes its place
};

struct SayNode {
  std::string text;  // a line to log
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
                                RunMend,
                                RefuseMend,
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
                                SuspectNode,
                                EndFinished,
                                EndClosed,
                                EndFailed,
                                EndLeft,
                                EndReplaced,
                                SayNode>;

using NodeEffects = std::vector<NodeEffect>;

}  // namespace muster
