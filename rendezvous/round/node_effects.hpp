// SPDX-License-Identifier: Apache-2.0
// What the rendezvous of one node wants done, in the order given. Values; the shell
// (rendezvous/node) and the simulator carry them out.
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

// One connection, of either direction. Ids of outgoing ones are given by the core (odd), those of
// incoming ones by the shell (even, from 2). Never used twice. 0 is the node's talk to itself.
using LinkId = std::uint64_t;

// -- to the network ----------------------------------------------------------------------------

// Host: a name (an endpoint as typed), or numeric. LinkOpened or LinkClosed within `timeout`.
struct OpenLink {
  LinkId link = 0;
  std::string host;
  std::uint16_t port = 0;
  Duration timeout{};
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

// Our coordinator has sent the job's own key: use it for later connections.
struct UseJobKey {
  std::string secret;
};

// -- to the agent ------------------------------------------------------------------------------

// We lead a running job: listen on our other endpoints too, so that newcomers find the job.
struct HostEndpoints {};

// No leader answers at the first endpoint, which may be ours: bind it. On success: EndpointBound.
struct BindEndpoint {};

// Record this in place of what was recorded before. Answer: RoundRecorded, RecordFailed.
struct RecordRound {
  Memory memory;
};

// We are group rank 0: open the workers' store, or hold a port. Answer: StoreOpened, StoreFailed.
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

// Stop the workers in good order; WorkersGone is expected.
struct StopWorkers {
  std::string reason;
  RankSpan gone{};  // ranks whose end is the reason
};

// Then the agent's guard kills its workers; TimePoint::max(): not at all. Later ones replace it.
// FenceWorkers is given out a little earlier, by an agent that runs.
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

// Another node asks whether this connection belongs to a process of ours. Answer: OwnerFound.
struct FindOwner {
  Vouch question;
};

// Whether a client of our store is let in; if not, why.
struct VouchKnown {
  std::uint64_t client = 0;
  std::optional<Error> refused;
};

// The coordinator wants to know what our workers do. Answer: LookedHere.
struct LookNow {
  Look question;
};

// How a node of the round took part in an inquiry.
enum class Presence : std::uint8_t {
  answered,
  finished,  // all its workers had ended well
  silent,    // nothing was heard of it
  late,      // it lives, and has not answered
};

struct NodeAnswer {
  std::string name;
  RankSpan ranks{};
  Presence presence = Presence::late;
  Duration silent_for{};  // silent; late: since it was asked
  std::string findings{};
  bool operator==(const NodeAnswer&) const = default;
};

// We lead and have asked all nodes, in the order of group ranks. Answer: JudgedHere.
struct JudgeNow {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::vector<NodeAnswer> nodes;
};

// What the inquiry came to; each node hears it once.
struct HearVerdict {
  Judged said;
};

// We lead: how long the ranks of a member, which has these, have waited.
struct HearWaits {
  std::string node;
  RankSpan ranks{};
  Waited said;
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

inline void send_to(LinkId link, RoundMessage message, NodeEffects& out) {
  out.emplace_back(SendMessage{link, std::make_shared<const RoundMessage>(std::move(message))});
}

}  // namespace muster
