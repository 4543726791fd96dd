// SPDX-License-Identifier: Apache-2.0
// WaitListener: who judges, where this node leads, which ranks of a job of many nodes are slow.
// SharedRounds hands it what the rendezvous hears; StragglerWatch is the real one. One thread.
#pragma once

#include "rendezvous/round/node_effects.hpp"

namespace muster {

class WaitListener {
 public:
  virtual ~WaitListener() = default;
  virtual void hear(const HearWaits& heard) = 0;
};

}  // namespace muster
