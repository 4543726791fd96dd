// SPDX-License-Identifier: Apache-2.0
// HangListener: one node's part in diagnosing a hang in a multi-node job. SharedRounds forwards the
// requests of the rendezvous to it. HangControl is the real implementation. One thread.
#pragma once

#include "rendezvous/node/node_owner.hpp"

namespace muster {

class HangListener {
 public:
  virtual ~HangListener() = default;
  // LookNow: inspect the workers on this node. Answered with LookedHere. JudgeNow: determine the
  // verdict from the findings of all nodes. Answered with JudgedHere. HearVerdict: contains the
  // verdict.
  virtual void inquire(const InquiryStep& step) = 0;
};

}  // namespace muster
