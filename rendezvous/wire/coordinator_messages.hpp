// SPDX-License-Identifier: Apache-2.0
// Messages from a coordinator to its nodes, and replies of other nodes to queries. Values; encoded
// by wire/round_encoder, explained in round/ and PROTOCOL.md. Thread-safe.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster {

struct Welcome {
  NodeInfo coordinator;
  Duration lease{};
  std::string job_key{};  // empty if the nodes have a different common secret, or none
  bool operator==(const Welcome&) const = default;
};

// The accepting side's reply to an Introduction. It is sent in plaintext, before any other data.
enum class RoundReply : std::uint8_t {
  refused,     // only a Refuse follows
  plain,       // plaintext frames follow
  sealed,      // TLS follows, with frames inside
  credential,  // TLS with the key in the MUNGE credential that follows
  first_use,   // TLS with the key that every node can derive from the job ID
  job_key,     // TLS with the key that the coordinator sent to its nodes
};

enum class Refusal : std::uint8_t {
  wrong_job,      // another job uses this endpoint
  wrong_terms,    // a setting that must be equal on all nodes differs
  wrong_version,  // different muster version
  closed,         // the job has ended
  wrong_token,    // a different token, or no token on one side
};

struct Refuse {
  Refusal why = Refusal::wrong_job;
  std::string text;  // one sentence
  bool operator==(const Refuse&) const = default;
};

// Names the coordinator that the receiver should follow. A node that followed the sender is
// released.
struct Redirect {
  NodeInfo coordinator;
  bool operator==(const Redirect&) const = default;
};

// Reply to Purpose::ask.
struct Claim {
  NodeInfo node;         // the answering node
  NodeInfo coordinator;  // the node that it follows, possibly itself; id 0 if none
  RoundId started;
  bool has_quorum = false;  // it is a coordinator and may form rounds
  Inheritance inherits{};   // inherited by `node`
  bool operator==(const Claim&) const = default;
};

// Reply to Beat. If `granted`, workers may run for another lease, counted from the time at which
// the Beat was sent.
struct Pong {
  std::uint64_t sequence = 0;
  bool granted = false;
  bool operator==(const Pong&) const = default;
};

// The nodes that are present while a round is being formed.
struct RollCall {
  std::int32_t present = 0;
  std::int32_t needed = 0;           // number of nodes needed for a round without a last call
  std::vector<std::string> names;    // nodes that are present, at most kRollCallNamesMax
  std::vector<std::string> awaited;  // "node3 (silent for 4 s)", "1 more node"
  std::vector<std::string> refused;  // "node9: another job ('b', this one is 'a')"
  bool operator==(const RollCall&) const = default;
};

inline constexpr std::size_t kRollCallNamesMax = 16;

// Asks the node to join a round. `base` is the last round that was started. A node that accepts
// learns both rounds, because a later leader needs a quorum of each.
struct Propose {
  RoundPtr round;
  RoundPtr base;
};

// Tells a member to start its workers, because all members have accepted.
struct Start {
  RoundId round;
  std::string master_addr;
  std::uint16_t master_port = 0;
  std::int32_t restarts = 0;  // used so far, mends included
  LeaderOffer offer;
  bool operator==(const Start&) const = default;
};

// Tells a node to stop its workers. The node answers Stopping immediately, and Ready once they have
// exited. `gone` contains the ranks whose exit is the reason.
struct Regroup {
  std::string reason;
  RankSpan gone{};
  bool is_planned = false;  // the workers save and exit on their own
  bool operator==(const Regroup&) const = default;
};

// Reply to Finished: the node may exit. With a reason: a spare takes the node's place. The node
// leaves as soon as its workers have exited, and may join again as a new node.
struct Dismiss {
  std::string reason{};
  bool operator==(const Dismiss&) const = default;
};

// A failed rank other than the root cause.
struct OtherFailure {
  std::int32_t rank = 0;
  std::string node;
  std::string text;
  bool operator==(const OtherFailure&) const = default;
};

// Exit code of a job that cannot start because its nodes have different tokens.
inline constexpr std::int32_t kUsageExitCode = 2;

// The job is over.
struct Close {
  bool succeeded = false;
  std::int32_t exit_code = 0;
  std::string reason;           // why there is no further restart; empty on success
  std::int32_t root_rank = -1;  // -1 if too few nodes remained; see `reason`
  std::string root_node;
  std::string root_text;
  std::string details;  // evidence for the root cause, from the failed rank's node
  std::int32_t others_count = 0;
  std::vector<OtherFailure> others;  // at most kOtherFailuresMax
  bool operator==(const Close&) const = default;
};

inline constexpr std::size_t kOtherFailuresMax = 32;

// Requests Rounds, because the receiver's Hello contained rounds that the sender does not know.
struct ShowRounds {
  bool operator==(const ShowRounds&) const = default;
};

}  // namespace muster
