// SPDX-License-Identifier: Apache-2.0
// Nodes, jobs and rounds in the messages of the rendezvous. Values. Thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster {

// The ID of one incarnation of an agent: random, never 0. A restarted node has a new ID.
using NodeId = std::uint64_t;

// What nodes know about one another.
struct NodeInfo {
  NodeId id = 0;
  std::string name;        // host name, for display and for the order of ranks
  std::string address;     // numeric address of the node's own listener
  std::uint16_t port = 0;  // port of the listener
  std::int32_t nproc = 1;  // number of workers
  std::string role;
  std::int32_t node_rank = -1;  // requested by the user; otherwise -1
  bool operator==(const NodeInfo&) const = default;
};

// Settings that must be equal on all nodes of a job.
struct JobTerms {
  std::string job_id;
  std::string backend;  // "c10d" or "static"
  std::int32_t nodes_min = 1;
  std::int32_t nodes_max = 1;
  std::int32_t max_restarts = 0;
  std::string version;            // muster version
  std::int32_t leader_ports = 0;  // reserved on the node with rank 0
  std::uint64_t program = 0;      // digest of program and arguments; 0 if not compared
  std::string command{};          // program and arguments, for display
  bool mends = false;             // --restart=rank
  bool operator==(const JobTerms&) const = default;
};

// What the node with rank 0 provides for a round's workers, in addition to the address of their
// store.
struct LeaderOffer {
  bool serves_store = true;          // if false, the worker with rank 0 serves the store
  std::vector<std::uint16_t> ports;  // reserved on that node for all workers (--leader-ports)
  bool is_carried = false;  // workers reach the store through their own agents (--store-via=proxy)
  bool operator==(const LeaderOffer&) const = default;
};

// Identifies one round, even if two coordinators have chosen the same number. Ordered by number.
struct RoundId {
  std::uint64_t number = 0;  // 0 if there is no round
  NodeId coordinator = 0;    // the node that proposed it
  auto operator<=>(const RoundId&) const = default;
};

// What a node knows about mends, in all rounds.
struct Mends {
  std::uint64_t epoch = 0;    // the epoch of the last round or mend
  std::int32_t restarts = 0;  // restarts used so far, mends included
  bool operator==(const Mends&) const = default;
};

// The membership of an agreed or proposed round.
struct Round {
  RoundId id;
  std::uint64_t job = 0;           // ID of the node that made the first proposal; unique to the job
  std::int32_t restart_count = 0;  // number of restarts of the job's workers after failures
  std::vector<NodeInfo> members;   // in group rank order
  bool operator==(const Round&) const = default;
};

// What a restarted agent inherits from previous agents on its host. These agents and their workers
// are dead (rendezvous/round/README.md, "Agents that are restarted").
struct Inheritance {
  std::uint64_t job = 0;     // Round::job of the previous agents' rounds
  RoundId until;             // the last round that the previous agents accepted
  std::vector<NodeId> ids;   // IDs of the previous agents; empty if nothing is inherited
  bool unconfirmed = false;  // this node leads but knows rounds only from records
  bool operator==(const Inheritance&) const = default;
};

// A span of consecutive ranks in a round.
struct RankSpan {
  std::int32_t first = 0;
  std::int32_t count = 0;  // 0 if there are none
  bool operator==(const RankSpan&) const = default;
};

// Shared, because one list is sent to thousands of nodes. Never null in a message: a missing round
// is represented by an empty round (number 0).
using RoundPtr = std::shared_ptr<const Round>;

}  // namespace muster
