// SPDX-License-Identifier: Apache-2.0
// Nodes, jobs and rounds in the messages of the rendezvous. Values. Any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster {

// One incarnation of an agent: random, never 0. A restarted node has a new one.
using NodeId = std::uint64_t;

// What nodes know about each other.
struct NodeInfo {
  NodeId id = 0;
  std::string name;        // host name, for display and for the order of ranks
  std::string address;     // numeric address of its own listener
  std::uint16_t port = 0;  // of that listener
  std::int32_t nproc = 1;  // workers
  std::string role;
  std::int32_t node_rank = -1;  // requested by the user; -1 if not
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
  std::uint64_t program = 0;      // digest of program and arguments; 0: not compared
  std::string command{};          // program and arguments, for display
  bool operator==(const JobTerms&) const = default;
};

// What the node with rank 0 provides for the workers of a round, in addition to the address of
// their store.
struct LeaderOffer {
  bool serves_store = true;          // its agent serves the store; otherwise the worker with rank 0
  std::vector<std::uint16_t> ports;  // on that node, reserved for all workers (--leader-ports)
  bool is_carried = false;  // workers reach it through their own agents (--store-via=proxy)
  bool operator==(const LeaderOffer&) const = default;
};

// Identifies one round, even if two coordinators chose the same number. Ordered by number.
struct RoundId {
  std::uint64_t number = 0;  // 0: no round
  NodeId coordinator = 0;    // the node that proposed it
  auto operator<=>(const RoundId&) const = default;
};

// An agreed or proposed membership.
struct Round {
  RoundId id;
  std::uint64_t job = 0;           // the node that made the job's first proposal; unique to the job
  std::int32_t restart_count = 0;  // number of restarts of the job's workers after failures
  std::vector<NodeInfo> members;   // in group rank order
  bool operator==(const Round&) const = default;
};

// A restarted agent's inheritance from previous agents on its host, which are dead, with their
// workers (rendezvous/round/README.md, "Agents that are restarted").
struct Inheritance {
  std::uint64_t job = 0;     // Round::job of the rounds that they accepted
  RoundId until;             // the last round that they accepted
  std::vector<NodeId> ids;   // their ids; empty: nothing is inherited
  bool unconfirmed = false;  // it leads, and knows rounds only from records
  bool operator==(const Inheritance&) const = default;
};

// Consecutive ranks of a round.
struct RankSpan {
  std::int32_t first = 0;
  std::int32_t count = 0;  // 0: none
  bool operator==(const RankSpan&) const = default;
};

// Shared, because one list goes to thousands of nodes. Never null in a message: a missing round is
// an empty one (number 0).
using RoundPtr = std::shared_ptr<const Round>;

}  // namespace muster
