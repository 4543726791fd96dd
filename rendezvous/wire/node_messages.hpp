// SPDX-License-Identifier: Apache-2.0
// Messages from a node to its coordinator, or to a presumed coordinator. Values; encoded by
// wire/round_encoder, explained in round/ and PROTOCOL.md. Thread-safe.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

enum class Purpose : std::uint8_t {
  join,   // attach the sender to the receiver
  ask,    // query only: asks for the receiver's identity and for its leader
  carry,  // worker data follows, for the store of the round `started`
};

// Bit mask of the proofs that a node can use for a connection: a token, MUNGE credentials of its
// user and, in jobs whose nodes have no common secret, the meeting key and the job key
// (node/first_use.hpp).
enum class Proofs : std::uint8_t {
  none = 0,
  token = 1,
  munge = 2,
  both = 3,
  first_use = 4,
  job_key = 8,
  all = 15,
};

[[nodiscard]] constexpr Proofs operator&(Proofs left, Proofs right) {
  return static_cast<Proofs>(static_cast<unsigned>(left) & static_cast<unsigned>(right));
}

[[nodiscard]] constexpr Proofs operator|(Proofs left, Proofs right) {
  return static_cast<Proofs>(static_cast<unsigned>(left) | static_cast<unsigned>(right));
}

[[nodiscard]] constexpr Proofs without(Proofs proofs, Proofs some) {
  return static_cast<Proofs>(static_cast<unsigned>(proofs) & ~static_cast<unsigned>(some));
}

[[nodiscard]] constexpr bool has(Proofs proofs, Proofs one) {
  return (proofs & one) == one;
}

// The first data from the connecting side, in plaintext.
struct Introduction {
  Proofs proofs = Proofs::none;
  std::string job;
  bool operator==(const Introduction&) const = default;
};

// The first message on every connection.
struct Hello {
  Purpose purpose = Purpose::join;
  JobTerms terms;
  NodeInfo node;
  RoundId started;           // the last round that this node was ordered to start
  RoundId accepted;          // a later round that it accepted but was not ordered to start
  NodeId lost = 0;           // the coordinator that it followed and can no longer reach
  bool waited = false;       // a full lease has passed since that coordinator's last message
  bool running = false;      // its workers of the round `started` are running
  bool coordinates = false;  // it leads other nodes; with Purpose::ask, it claims to lead
  bool has_quorum = false;   // it may form rounds
  Inheritance inherits{};
  Mends mends{};
  // For this long, the node is used only if no other node is available (node_settings.hpp).
  Duration reserve{};
  // Further addresses of its host, for example of another IP version. Its workers connect to the
  // store from any of them, whichever the route or the resolver selects.
  std::vector<std::string> addresses{};
  bool operator==(const Hello&) const = default;
};

// The rounds whose IDs are in Hello, for a coordinator that does not know them.
struct Rounds {
  RoundPtr started;
  RoundPtr accepted;
  RoundPtr base;  // the round before `accepted`
};

// Heartbeat. `heard` is the last Pong received.
struct Beat {
  std::uint64_t sequence = 0;
  std::uint64_t heard = 0;
  bool operator==(const Beat&) const = default;
};

// The sender has no running workers and waits for the next round. `lost_touch`: its workers were
// killed because the node was out of contact for too long.
struct Ready {
  bool lost_touch = false;
  bool operator==(const Ready&) const = default;
};

// The sender accepts this proposal. If it is the first member, it has opened the workers' store or
// holds its port.
struct Accept {
  RoundId round;
  std::string store_addr;        // address for workers; only from group rank 0
  std::uint16_t store_port = 0;  // only from group rank 0
  LeaderOffer offer{};           // only from group rank 0
  bool operator==(const Accept&) const = default;
};

// Failed::node_cause of a rank that a signal has killed; of one that the same signal has killed
// twice at the same point. In the second case, only a swap shows whether the node or the program is
// the reason.
inline constexpr const char* kSignal = "signal";
inline constexpr const char* kRepeatedSignal = "repeated signal";

// One of the sender's workers failed, `age` ago.
struct Failed {
  RoundId round;
  std::int32_t rank = 0;
  std::int32_t exit_code = 1;  // the launcher's exit code if this is the root cause
  Duration age{};
  Duration run_time{};       // from the start of the last local worker to the failure
  bool permanent = false;    // a restart cannot help: the program is not executable
  bool exited = false;       // exited with a code and was not killed by a signal
  bool consequence = false;  // exited after a stop request, without proof of an earlier error
  // The kind of the failure if the node may be the reason for it ("hardware"); otherwise empty.
  std::string node_cause{};
  std::string text;  // "exited with code 7"
  bool operator==(const Failed&) const = default;
};

// Evidence about the failure of `rank`, for the report. Opaque to the rendezvous.
struct Details {
  RoundId round;
  std::int32_t rank = 0;
  std::string blob;
  bool operator==(const Details&) const = default;
};

// Reply to Regroup. All earlier failures on this node were sent on this connection before this
// message.
struct Stopping {
  RoundId round;
  bool operator==(const Stopping&) const = default;
};

// Data from a worker to its store, or from the store to the worker. Sent on a separate connection
// that started with Purpose::carry. At most kMaxBlobBytes.
struct Carry {
  std::string bytes;
  bool operator==(const Carry&) const = default;
};

// All of the sender's workers have exited successfully.
struct Finished {
  RoundId round;
  bool operator==(const Finished&) const = default;
};

// The sender is leaving permanently. If `workers_gone` is false, its workers are still being
// stopped and a second Leave follows.
struct Leave {
  std::string reason;
  bool workers_gone = false;
  bool is_planned = false;  // the other nodes saved at the same step
  bool operator==(const Leave&) const = default;
};

}  // namespace muster
