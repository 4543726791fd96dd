// SPDX-License-Identifier: Apache-2.0
// WaitListener: on the leader, decides which ranks of a multi-node job are slow. SharedRounds
// passes on the wait times that the rendezvous receives. StragglerWatch is the real implementation.
// One thread.
#pragma once

#include "rendezvous/round/node_effects.hpp"

namespace muster {

class WaitListener {
 public:
  virtual ~WaitListener() = default;
  virtual void hear(const HearWaits& heard) = 0;
};

}  // namespace muster
