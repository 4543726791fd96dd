// SPDX-License-Identifier: Apache-2.0
// HangListener: one node's part in diagnosing a hang in a multi-node job. SharedRounds forwards the
// requests of the rendezvous to it. HangControl is the real implementation. One thread.
#pragma once

#include "rendezvous/round/node_effects.hpp"

namespace muster {

class HangListener {
 public:
  virtual ~HangListener() = default;
  // Inspects the workers on this node. Answered with LookedHere.
  virtual void look(const Look& question) = 0;
  // Determines the verdict from the findings of all nodes. Answered with JudgedHere.
  virtual void judge(const JudgeNow& all) = 0;
  virtual void hear(const Judged& said) = 0;
};

}  // namespace muster
