// SPDX-License-Identifier: Apache-2.0
// What a node says to its coordinator, or to whom it takes for one. Values; the bytes are made by
// wire/round_encoder, the meaning is in round/. PROTOCOL.md. Any thread.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>

namespace muster {

enum class Purpose : std::uint8_t {
  join,   // attach me
  ask,    // only tell me who you are and whom you follow: a probe
  carry,  // the bytes that follow are of a worker, for its store: those of the round `started`
};

// The keys that a node can use for a connection, as bits: a token, credentials that MUNGE makes for
// its user, and, for jobs whose nodes have no secret in common, the key of their first meeting and
// the job's own key (node/first_use.hpp).
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

// What the side that connected says in the clear before anything else.
struct Introduction {
  Proofs proofs = Proofs::none;
  std::string job;
  bool operator==(const Introduction&) const = default;
};

// First message on every connection.
struct Hello {
  Purpose purpose = Purpose::join;
  JobTerms terms;
  NodeInfo node;
  RoundId started;           // the last round that this node was told to start
  RoundId accepted;          // a later one that it accepted and does not know to have started
  NodeId lost = 0;           // the coordinator that it followed and cannot reach any more
  bool waited = false;       // a whole lease has passed since that one's last word
  bool running = false;      // its workers of `started` run
  bool coordinates = false;  // it leads others (purpose ask: a claim)
  bool has_quorum = false;   // and may form rounds
  Inheritance inherits{};
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

// I hold this proposal. The first member has opened the workers' store, or holds its port.
struct Accept {
  RoundId round;
  std::string store_addr;        // what workers dial; group rank 0 only
  std::uint16_t store_port = 0;  // the same
  LeaderOffer offer{};           // the same
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
  bool exited = false;       // with a code of its own, not by a signal
  bool consequence = false;  // ended after it was told to stop, without proof of an earlier error
  std::string text;          // "exited with code 7"
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

// Bytes of a worker to its store, or of the store to the worker; both ways, on a connection of its
// own that began with Purpose::carry. At most kMaxBlobBytes.
struct Carry {
  std::string bytes;
  bool operator==(const Carry&) const = default;
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

}  // namespace muster
