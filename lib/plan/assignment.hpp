// SPDX-License-Identifier: Apache-2.0
// Assignment: who this node's workers are in one round. Made from the round's members; with one
// node it is trivial, but the workers' environment is built from nothing else. Value, pure.
#pragma once

#include "base/endpoint.hpp"

#include <string>

namespace muster {

struct Assignment {
  int group_rank = 0;        // this node's place among the nodes
  int group_world_size = 1;  // nodes in the round
  int rank_first = 0;        // global rank of local rank 0
  int world_size = 1;        // workers of all nodes
  int role_rank_first = 0;
  int role_world_size = 1;
  int local_world_size = 1;
  int restart_count = 0;    // times that the job's workers were restarted
  int attempt = 0;          // starts of this node's workers, for log folders
  std::string master_addr;  // what the workers will dial; the store listens there
  std::uint16_t master_port = 0;

  bool operator==(const Assignment&) const = default;
};

// One node alone: ranks 0 … nproc-1.
[[nodiscard]] Assignment assign_alone(int nproc, int attempt, const Endpoint& store);

}  // namespace muster
