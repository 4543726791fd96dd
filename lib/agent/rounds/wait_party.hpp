// SPDX-License-Identifier: Apache-2.0
// WaitParty: who judges, where this node leads, which ranks of a job of many nodes are slow.
// SharedRounds hands it what the rendezvous hears; StragglerDuty is the real one. One thread.
#pragma once

#include "rendezvous/round/node_effects.hpp"

namespace muster {

class WaitParty {
 public:
  virtual ~WaitParty() = default;
  virtual void hear(const HearWaits& heard) = 0;
};

}  // namespace muster
