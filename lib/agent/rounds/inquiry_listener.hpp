// SPDX-License-Identifier: Apache-2.0
// InquiryListener: one node's part in an inquiry of a multi-node job. SharedRounds forwards the
// requests of the rendezvous to it. HangControl implements it for hangs, PreemptionControl for
// preemptions and CheckControl for --check. One thread.
#pragma once

#include "rendezvous/node/node_owner.hpp"

namespace muster {

class InquiryListener {
 public:
  virtual ~InquiryListener() = default;
  // LookNow: inspect the workers on this node. Answered with LookedHere. JudgeNow: determine the
  // verdict from the findings of all nodes. Answered with JudgedHere. HearVerdict: contains the
  // verdict.
  virtual void inquire(const InquiryStep& step) = 0;
};

}  // namespace muster
