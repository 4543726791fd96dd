// SPDX-License-Identifier: Apache-2.0
// Operation: one collective or one send or receive of the fake NCCL, as it was called; and the
// kernel that performs what a group holds. The kernel runs on a stream's thread.
#pragma once

#include "fakes/nccl/comm.hpp"

namespace muster::fake {

enum class What {
  all_reduce,
  reduce,
  broadcast,
  reduce_scatter,
  all_gather,
  all_to_all,
  send,
  recv
};

struct Operation {
  What what;
  const void* in;
  void* out;
  std::size_t count;  // as NCCL counts it for this call
  ncclDataType_t type;
  Reduction reduction;
  int root;  // or the peer
  std::uint64_t number = 0;
};

// "all_reduce f32[8] op 0 root -1"
[[nodiscard]] std::string describe(const Operation& operation);

// How much memory it reads and writes on this rank.
[[nodiscard]] std::size_t bytes_in(const Operation& operation, const Comm& comm);
[[nodiscard]] std::size_t bytes_out(const Operation& operation, const Comm& comm);

// By the kernel oneRankReduce, which has no fp8 (2.28.9 leaves it out by an #if on the host's
// side).
[[nodiscard]] bool multiplies_on_one_rank(const Operation& operation, const Comm& comm);

// Performs them; on a fault it leaves the result in the communicator and waits for its abort.
void run_kernel(Comm& comm, std::vector<Operation>& operations);

}  // namespace muster::fake
