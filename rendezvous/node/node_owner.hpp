// SPDX-License-Identifier: Apache-2.0
// NodeOwner: the agent's interface for RendezvousNode. It receives those NodeCore effects that do
// not concern the network (round/node_effects.hpp explains each effect and the expected reply).
// Called on the loop. Each function may call RendezvousNode::tell immediately or later.
#pragma once

#include "base/log_level.hpp"
#include "base/time.hpp"
#include "rendezvous/round/node_events.hpp"

#include <string>
#include <variant>

namespace muster {

// The steps of an inquiry.
using InquiryStep = std::variant<LookNow, JudgeNow, HearVerdict>;

[[nodiscard]] inline Topic topic_of(const InquiryStep& step) {
  if (const auto* asked = std::get_if<LookNow>(&step)) {
    return asked->question.topic;
  }
  const auto* all = std::get_if<JudgeNow>(&step);
  return all != nullptr ? all->topic : std::get<HearVerdict>(step).said.topic;
}

using NodeEnd = std::variant<EndFinished, EndClosed, EndFailed, EndLeft, EndReplaced>;

class NodeOwner {
 public:
  virtual ~NodeOwner() = default;
  virtual void run_round(const RunRound& run) = 0;
  virtual void run_mend(const RunMend& run) = 0;
  virtual void refuse_mend(const RefuseMend& refused) = 0;
  virtual void stop_workers(const StopWorkers& stop) = 0;
  virtual void fence_workers(const std::string& reason) = 0;
  virtual void lease_until(TimePoint when) = 0;
  virtual void open_store(RoundId round) = 0;
  virtual void find_owner(const FindOwner& question) = 0;
  virtual void vouch_known(const VouchKnown& known) = 0;
  virtual void inquire(const InquiryStep& step) = 0;
  virtual void hear_waits(const HearWaits& heard) = 0;
  virtual void hear_suspect(const SuspectNode& suspect) = 0;
  virtual void show_roll_call(const ShowRollCall& show) = 0;
  virtual void log(LogLevel level, const std::string& text) = 0;

  void say(const std::string& text) { log(LogLevel::warning, text); }

  // The last call, made after all messages to other nodes are sent. The function may destroy the
  // node.
  virtual void ended(const NodeEnd& end) = 0;
};

}  // namespace muster
