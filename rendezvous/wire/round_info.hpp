// SPDX-License-Identifier: Apache-2.0
// Nodes, jobs and rounds as the messages of the rendezvous name them. Values. Any thread.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
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
  std::string version;            // of muster
  std::int32_t leader_ports = 0;  // reserved on the node of rank 0
  std::uint64_t program = 0;      // digest of the program and its arguments; 0: not compared
  std::string command{};          // the same, for people
  bool operator==(const JobTerms&) const = default;
};

// What the node of rank 0 has for the workers of a round, besides the address and the port of their
// store.
struct LeaderOffer {
  bool serves_store = true;          // its agent does; else the worker of rank 0
  std::vector<std::uint16_t> ports;  // of that node, reserved for all workers (--leader-ports)
  bool is_carried = false;  // workers reach it through their own agents (--store-via=proxy)
  bool operator==(const LeaderOffer&) const = default;
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
  std::uint64_t job = 0;  // the node that made the job's first proposal: no other job has the same
  std::int32_t restart_count = 0;  // times that a failure restarted the job's workers
  std::vector<NodeInfo> members;   // in the order of their group ranks
  bool operator==(const Round&) const = default;
};

// What an agent that was started again has from those before it on its host, which are gone with
// their workers (rendezvous/round/README.md, "Agents that are restarted").
struct Inheritance {
  std::uint64_t job = 0;     // Round::job of what they accepted
  RoundId until;             // the last round that they accepted
  std::vector<NodeId> ids;   // theirs; empty: nothing is inherited
  bool unconfirmed = false;  // it leads, and knows rounds from records alone
  bool operator==(const Inheritance&) const = default;
};

// Consecutive ranks of a round.
struct RankSpan {
  std::int32_t first = 0;
  std::int32_t count = 0;  // 0: none
  bool operator==(const RankSpan&) const = default;
};

// Shared, since one list goes to thousands of nodes. Never null inside a message: an empty round
// (number 0) stands for none.
using RoundPtr = std::shared_ptr<const Round>;

}  // namespace muster
