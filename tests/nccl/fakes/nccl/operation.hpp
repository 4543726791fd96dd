// SPDX-License-Identifier: Apache-2.0
// Operation: one collective, send or receive of the fake NCCL, as it was called; and the kernel
// that performs the operations of a group. The kernel runs on a stream's thread.
#pragma once

#include "nccl/fakes/nccl/comm.hpp"

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
  std::size_t count;  // as counted by NCCL for this call
  ncclDataType_t type;
  Reduction reduction;
  int root;  // root, or the peer of a transfer
  std::uint64_t number = 0;
};

// "all_reduce f32[8] op 0 root -1"
[[nodiscard]] std::string describe(const Operation& operation);

// The amount of memory that it reads and writes on this rank.
[[nodiscard]] std::size_t bytes_in(const Operation& operation, const Comm& comm);
[[nodiscard]] std::size_t bytes_out(const Operation& operation, const Comm& comm);

// True for the kernel oneRankReduce, which does not support fp8 (2.28.9 excludes it with #if on the
// host side).
[[nodiscard]] bool multiplies_on_one_rank(const Operation& operation, const Comm& comm);

// Performs the operations. After a fault, leaves the result in the communicator and waits for its
// abort.
void run_kernel(Comm& comm, std::vector<Operation>& operations);

}  // namespace muster::fake
