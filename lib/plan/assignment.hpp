// SPDX-License-Identifier: Apache-2.0
// Assignment: the ranks of this node's workers in one round. assign() computes it from the round's
// members. The workers' environment is built only from it. Values, pure.
#pragma once

#include "base/endpoint.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace muster {

struct Assignment {
  int group_rank = 0;        // index of this node in the round
  int group_world_size = 1;  // nodes in the round
  int rank_first = 0;        // global rank of local rank 0
  int world_size = 1;        // workers on all nodes
  int role_rank_first = 0;
  int role_world_size = 1;
  int local_world_size = 1;
  std::uint64_t epoch = 1;  // number of the round: equal on all nodes, increases with each round
  int restart_count = 0;    // number of times the job's workers were restarted
  int attempt = 0;  // number of times this node's workers were started; used in log directory names
  std::string master_addr;  // the store's address, to which workers connect
  std::uint16_t master_port = 0;
  std::string leader_addr;  // address of rank 0's node if master_addr is a local proxy; else empty
  std::string node_addr;    // this node's address if master_addr is a local proxy; else empty
  std::string interface;    // interface with this node's address; empty in single-node rounds
  bool agent_store = true;  // if false, rank 0's worker serves the store
  std::vector<std::uint16_t> ports;         // reserved on this node for its workers
  std::vector<std::uint16_t> leader_ports;  // reserved on rank 0's node; 0 if not known yet
  std::uint16_t jax_port = 0;  // reserved there for JAX's coordinator; 0 if unused or not known yet

  bool operator==(const Assignment&) const = default;
};

// The properties of a node that determine the ranks.
struct NodeShare {
  int nproc = 1;
  std::string role;
  bool operator==(const NodeShare&) const = default;
};

// Counters that identify this start of the workers.
struct RoundTimes {
  int restart_count = 0;
  int attempt = 0;
  std::uint64_t epoch = 1;
};

// Computes the ranks of node `self` among `members`, which are in group-rank order. Ranks are
// numbered across the nodes in that order and are consecutive on each node. Role ranks are numbered
// the same way among the nodes with the same role. Error: protocol, if the members (which come from
// other hosts) do not form a valid round: a node without workers, more workers than an int can
// hold, or `self` out of range.
[[nodiscard]] Result<Assignment> assign(std::span<const NodeShare> members,
                                        std::size_t self,
                                        RoundTimes times,
                                        const Endpoint& store);

// The assignment for a single node: ranks 0 to nproc-1. Its restart count equals its attempt
// number.
[[nodiscard]] Assignment assign_alone(int nproc, int attempt, const Endpoint& store);

// Sets the ports that rank 0's node has reserved. With `jax`, the last one is for JAX's
// coordinator.
void set_leader_ports(Assignment& assignment, std::vector<std::uint16_t> ports, bool jax);

}  // namespace muster
