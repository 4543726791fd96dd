// SPDX-License-Identifier: Apache-2.0
// Assignment: who this node's workers are in one round. Made from the round's members by assign();
// the workers' environment is built from nothing else. Values, pure.
#pragma once

#include "base/endpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster {

struct Assignment {
  int group_rank = 0;        // this node's place among the nodes
  int group_world_size = 1;  // nodes in the round
  int rank_first = 0;        // global rank of local rank 0
  int world_size = 1;        // workers of all nodes
  int role_rank_first = 0;
  int role_world_size = 1;
  int local_world_size = 1;
  std::uint64_t epoch = 1;  // number of the round: the same on all nodes, grows with each
  int restart_count = 0;    // times that the job's workers were restarted
  int attempt = 0;          // starts of this node's workers, for log folders
  std::string master_addr;  // what the workers will dial; the store listens there
  std::uint16_t master_port = 0;
  std::string leader_addr;  // of the node of rank 0, where master_addr is a proxy's here; or empty
  std::string node_addr;    // of this node, for the same case
  std::string interface;    // with this node's address, in a round of several nodes; or empty
  bool agent_store = true;  // false: the worker of rank 0 is to serve it there
  std::vector<std::uint16_t> ports;         // reserved on this node, for its workers
  std::vector<std::uint16_t> leader_ports;  // reserved on the node of rank 0; 0: not known yet

  bool operator==(const Assignment&) const = default;
};

// One node of a round, as far as ranks depend on it.
struct NodeShare {
  int nproc = 1;
  std::string role;
  bool operator==(const NodeShare&) const = default;
};

// Which start of the workers this is.
struct RoundTimes {
  int restart_count = 0;
  int attempt = 0;
  std::uint64_t epoch = 1;
};

// The ranks of node `self` among `members`, which are in the order of group ranks. Ranks count
// through the nodes in that order, and are consecutive on each; role ranks count likewise among the
// nodes of one role. Error: protocol, for what no round may consist of (members come from outside):
// no workers on a node, more than an int can count, `self` not among them.
[[nodiscard]] Result<Assignment> assign(std::span<const NodeShare> members,
                                        std::size_t self,
                                        RoundTimes times,
                                        const Endpoint& store);

// One node alone: ranks 0 … nproc-1. Its workers are restarted as often as they are started.
[[nodiscard]] Assignment assign_alone(int nproc, int attempt, const Endpoint& store);

}  // namespace muster
