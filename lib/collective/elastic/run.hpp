// SPDX-License-Identifier: Apache-2.0
// elastic::run: calls a training function again after the loss of other ranks. Called by the C
// interface. One thread.
#pragma once

#include "collective/communicator.hpp"
#include "collective/elastic/state.hpp"

namespace muster::collective::elastic {

// The function to call, and the owner of the communicator that it uses.
class Training {
 public:
  Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  virtual ~Training() = default;

  // Keeps the communicator of the next call, at an address that stays valid until disconnect().
  virtual Communicator& connect(Communicator communicator) = 0;
  virtual void disconnect() = 0;
  // Returns 0, or another number after an error.
  virtual int train() = 0;
};

// Connects all ranks, synchronizes the state and calls the function. After a loss of other ranks,
// restores the state, waits for the next round and does the same again. Returns 0 when the function
// has returned 0 on all ranks, and the function's number if it failed for another reason. Without
// muster, calls the function once. In a spare worker, waits first until it replaces a rank.
// Options: name and, under muster, init_timeout are not used. Errors: invalid_state (a second call
// under muster), system (muster rejects this process or closes the connection), and those of
// Communicator::from_env and of operations.
[[nodiscard]] Result<int> run(State& state, Training& training, const CommOptions& options);

}  // namespace muster::collective::elastic
