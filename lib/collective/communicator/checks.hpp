// SPDX-License-Identifier: Apache-2.0
// Validates a call before anything is sent. Pure.
#pragma once

#include "collective/error.hpp"
#include "collective/transport/transport.hpp"
#include "collective/types.hpp"

namespace muster::collective {

// The buffers of a call as the caller passed them.
struct Call {
  Kind kind = Kind::barrier;
  ConstBuffer in = {};  // unused for broadcast and recv
  Buffer out = {};      // unused for send, and for reduce on ranks other than root
  Op op = Op::sum;
  int root = -1;  // the root, or the peer of a transfer
  double scale = 1;
  void* stream = nullptr;
};

// Returns the request, without its number and deadline. Error: invalid_argument, or unsupported
// for GPU-only types.
[[nodiscard]] Result<Request> checked(const Call& call, int rank, int size);

}  // namespace muster::collective
