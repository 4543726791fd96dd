// SPDX-License-Identifier: Apache-2.0
// What a coordinator says to its nodes, and a node that is none to who asks it. Values; the bytes
// are made by wire/round_encoder, the meaning is in round/. PROTOCOL.md. Any thread.
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
  std::string job_key{};  // empty: the nodes have another secret in common, or none at all
  bool operator==(const Welcome&) const = default;
};

// What the side that accepts says in the clear to an Introduction, before anything else.
enum class RoundReply : std::uint8_t {
  refused,     // a Refuse follows, and nothing more
  plain,       // frames follow in the clear
  sealed,      // TLS follows, with frames inside
  credential,  // the same, with the key in the credential of MUNGE behind this
  first_use,   // the same, with the key that every node can make from the job id
  job_key,     // the same, with the key that the coordinator gave to its nodes
};

enum class Refusal : std::uint8_t {
  wrong_job,      // another job uses this endpoint
  wrong_terms,    // what all nodes must agree on differs
  wrong_version,  // another version of muster
  closed,         // the job has ended
  wrong_token,    // another one, or one side has none
};

struct Refuse {
  Refusal why = Refusal::wrong_job;
  std::string text;  // one sentence
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
  Inheritance inherits{};   // of `node`
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
  LeaderOffer offer;
  bool operator==(const Start&) const = default;
};

// Stop your workers, answer Stopping at once and Ready when they are gone. `gone`: the ranks whose
// end is the reason.
struct Regroup {
  std::string reason;
  RankSpan gone{};
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
  std::string text;
  bool operator==(const OtherFailure&) const = default;
};

// Exit code of a job that cannot begin, because its nodes were started with different tokens.
inline constexpr std::int32_t kUsageExitCode = 2;

// The job is over.
struct Close {
  bool succeeded = false;
  std::int32_t exit_code = 0;
  std::string reason;           // why there is no further restart; empty on success
  std::int32_t root_rank = -1;  // none: too few nodes were left, see the reason
  std::string root_node;
  std::string root_text;
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

}  // namespace muster
