// SPDX-License-Identifier: Apache-2.0
// HangListener: the part that the agent of one node takes in finding out who holds up a job of
// many. SharedRounds hands it what the rendezvous asks; HangControl is the real one. One thread.
#pragma once

#include "agent/failures/failure.hpp"
#include "rendezvous/round/node_effects.hpp"

namespace muster {

class HangListener {
 public:
  virtual ~HangListener() = default;
  // What do the workers here do? Answer: LookedHere.
  virtual void look(const Look& question) = 0;
  // What follows from what all nodes have seen? Answer: JudgedHere.
  virtual void judge(const JudgeNow& all) = 0;
  virtual void hear(const Judged& said) = 0;
  // Says so where the worker was ended because it hung.
  virtual void add_evidence(WorkerFailure& failure) const = 0;
};

}  // namespace muster
