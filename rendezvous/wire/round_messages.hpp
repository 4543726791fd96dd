// SPDX-License-Identifier: Apache-2.0
// What the nodes of one job say to each other about its rounds. Values only: the bytes are made by
// wire/round_codec, the meaning is in round/. PROTOCOL.md, "Frames of the rendezvous". Any thread.
#pragma once

#include "base/time.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace muster {

// One incarnation of an agent: random, never 0. A node that is started again has another one.
using NodeId = std::uint64_t;

// What every node knows of another one.
struct NodeInfo {
  NodeId id = 0;
  std::string name;        // host name: for people and for the order of ranks
  std::string address;     // numeric; where its own listener is reached
  std::uint16_t port = 0;  // of that listener
  std::int32_t nproc = 1;  // workers
  std::string role;
  std::int32_t node_rank = -1;  // asked for by the user; -1: not
  bool operator==(const NodeInfo&) const = default;
};

// What all nodes of a job must agree on.
struct JobTerms {
  std::string job_id;
  std::string backend;  // "c10d" or "static"
  std::int32_t nodes_min = 1;
  std::int32_t nodes_max = 1;
  std::int32_t max_restarts = 0;
  std::string version;  // of muster
  bool operator==(const JobTerms&) const = default;
};

// Names one round, also between two coordinators that chose the same number. Ordered by number.
struct RoundId {
  std::uint64_t number = 0;  // 0: no round
  NodeId coordinator = 0;    // who proposed it
  auto operator<=>(const RoundId&) const = default;
};

// A membership that was agreed on, or is proposed.
struct Round {
  RoundId id;
  std::int32_t restart_count = 0;  // times that a failure restarted the job's workers
  std::vector<NodeInfo> members;   // in the order of their group ranks
  bool operator==(const Round&) const = default;
};

// Shared, since one list goes to thousands of nodes. Never null inside a message: an empty round
// (number 0) stands for none.
using RoundPtr = std::shared_ptr<const Round>;

// -- from a node to a coordinator, or to whom it takes for one --------------------------------

enum class Purpose : std::uint8_t {
  join,  // attach me
  ask,   // only tell me who you are and whom you follow: a probe
};

// First message on every connection. `credentials` is empty in this version: room for a proof that
// the sender may take part.
struct Hello {
  Purpose purpose = Purpose::join;
  JobTerms terms;
  NodeInfo node;
  std::string credentials;
  RoundId started;           // the last round that this node was told to start
  RoundId accepted;          // a later one that it accepted and does not know to have started
  NodeId lost = 0;           // the coordinator that it followed and cannot reach any more
  bool waited = false;       // a whole lease has passed since that one's last word
  bool running = false;      // its workers of `started` run
  bool coordinates = false;  // it leads others (purpose ask: a claim)
  bool has_quorum = false;   // and may form rounds
  bool operator==(const Hello&) const = default;
};

// The rounds behind the ids in Hello, for a coordinator that does not know them.
struct Rounds {
  RoundPtr started;
  RoundPtr accepted;
  RoundPtr base;  // of `accepted`
};

// Sign of life. `heard` is the last Pong seen.
struct Beat {
  std::uint64_t sequence = 0;
  std::uint64_t heard = 0;
  bool operator==(const Beat&) const = default;
};

// No worker of mine runs; I wait for the next round. `lost_touch`: they were killed because we did
// not hear from each other in time.
struct Ready {
  bool lost_touch = false;
  bool operator==(const Ready&) const = default;
};

// I hold this proposal. The first member has opened the workers' store.
struct Accept {
  RoundId round;
  std::string store_addr;        // what workers dial; group rank 0 only
  std::uint16_t store_port = 0;  // the same
  bool operator==(const Accept&) const = default;
};

// A worker of mine failed, `age` ago.
struct Failed {
  RoundId round;
  std::int32_t rank = 0;
  std::int32_t exit_code = 1;  // for the launcher, should this be the root cause
  Duration age{};
  Duration run_time{};       // from the start of the last local worker to the failure
  bool permanent = false;    // no restart can help: the program cannot be executed
  bool consequence = false;  // ended after we had told it to stop, with proof of an earlier error
  std::string words;         // "exited with code 7"
  bool operator==(const Failed&) const = default;
};

// Evidence for the report on the failure of `rank`: opaque to the rendezvous.
struct Details {
  RoundId round;
  std::int32_t rank = 0;
  std::string blob;
  bool operator==(const Details&) const = default;
};

// Regroup was heard; whatever failed here before it was told earlier on this connection.
struct Stopping {
  RoundId round;
  bool operator==(const Stopping&) const = default;
};

// All my workers ended well.
struct Finished {
  RoundId round;
  bool operator==(const Finished&) const = default;
};

// I leave for good. `workers_gone` false: my workers are being stopped, a second one follows.
struct Leave {
  std::string reason;
  bool workers_gone = false;
  bool operator==(const Leave&) const = default;
};

// -- from a coordinator, or from a node that is none ------------------------------------------

struct Welcome {
  NodeInfo coordinator;
  Duration lease{};
  bool operator==(const Welcome&) const = default;
};

enum class Refusal : std::uint8_t {
  wrong_job,      // another job uses this endpoint
  wrong_terms,    // nnodes, back end or restart budget differ
  wrong_version,  // another version of muster
  closed,         // the job has ended
};

struct Refuse {
  Refusal why = Refusal::wrong_job;
  std::string words;  // one sentence with both values
  bool operator==(const Refuse&) const = default;
};

// Your coordinator is there; I release you if you followed me.
struct Redirect {
  NodeInfo coordinator;
  bool operator==(const Redirect&) const = default;
};

// Answer to Purpose::ask.
struct Claim {
  NodeInfo node;         // who answers
  NodeInfo coordinator;  // whom it follows, maybe itself; id 0: nobody
  RoundId started;
  bool has_quorum = false;  // it coordinates and may form rounds
  bool operator==(const Claim&) const = default;
};

// Answer to Beat. `granted`: workers may run for another lease from when that Beat was sent.
struct Pong {
  std::uint64_t sequence = 0;
  bool granted = false;
  bool operator==(const Pong&) const = default;
};

// Who is there, while a round is being formed.
struct RollCall {
  std::int32_t present = 0;
  std::int32_t needed = 0;           // for the round to form without a last call
  std::vector<std::string> names;    // present, at most kRollCallNamesMax
  std::vector<std::string> awaited;  // "node3 (silent for 4 s)", "1 more node"
  std::vector<std::string> refused;  // "node9: another job ('b', this one is 'a')"
  bool operator==(const RollCall&) const = default;
};

inline constexpr std::size_t kRollCallNamesMax = 16;

// Would you take part? `base` is the last round that was started before; whoever accepts knows
// both, since a successor needs a quorum of each.
struct Propose {
  RoundPtr round;
  RoundPtr base;
};

// All members accepted: run.
struct Start {
  RoundId round;
  std::string master_addr;
  std::uint16_t master_port = 0;
  bool operator==(const Start&) const = default;
};

// Stop your workers, answer Stopping at once and Ready when they are gone.
struct Regroup {
  std::string reason;
  bool operator==(const Regroup&) const = default;
};

// The answer to Finished: you need not stay.
struct Dismiss {
  bool operator==(const Dismiss&) const = default;
};

// A failed rank besides the root cause.
struct OtherFailure {
  std::int32_t rank = 0;
  std::string node;
  std::string words;
  bool operator==(const OtherFailure&) const = default;
};

// The job is over.
struct Close {
  bool succeeded = false;
  std::int32_t exit_code = 0;
  std::string reason;  // why there is no further restart; empty on success
  std::int32_t root_rank = -1;
  std::string root_node;
  std::string root_words;
  std::string details;  // of the root cause, as its node sent them
  std::int32_t others_count = 0;
  std::vector<OtherFailure> others;  // at most kOtherFailuresMax of them
  bool operator==(const Close&) const = default;
};

inline constexpr std::size_t kOtherFailuresMax = 32;

// I do not know the rounds that you named: send Rounds.
struct ShowRounds {
  bool operator==(const ShowRounds&) const = default;
};

using RoundMessage = std::variant<Hello,
                                  Rounds,
                                  Beat,
                                  Ready,
                                  Accept,
                                  Failed,
                                  Details,
                                  Stopping,
                                  Finished,
                                  Leave,
                                  Welcome,
                                  Refuse,
                                  Redirect,
                                  Claim,
                                  Pong,
                                  RollCall,
                                  Propose,
                                  Start,
                                  Regroup,
                                  Dismiss,
                                  Close,
                                  ShowRounds>;

}  // namespace muster
