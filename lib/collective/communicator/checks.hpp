// SPDX-License-Identifier: Apache-2.0
// What is wrong with a call, before anything is sent. Pure.
#pragma once

#include "collective/error.hpp"
#include "collective/transport/transport.hpp"
#include "collective/types.hpp"

namespace muster::collective {

// The buffers of a call as the caller gave them.
struct Call {
  Kind kind = Kind::barrier;
  ConstBuffer in = {};  // of broadcast and recv: not there
  Buffer out = {};      // of send, and of reduce where we are not the root: not there
  Op op = Op::sum;
  int root = -1;  // or the other side
  double scale = 1;
  void* stream = nullptr;
};

// The request, without number and deadline. Error: invalid_argument (or unsupported, for types
// that only GPUs have).
[[nodiscard]] Result<Request> checked(const Call& call, int rank, int size);

}  // namespace muster::collective
