// SPDX-License-Identifier: Apache-2.0
// LateRanks: shortly before the deadline of a preemption, finds out what the ranks are doing that
// have not saved yet, so that muster can print it when it kills them. Owned by PreemptionControl;
// lives on its loop. Resource.
#pragma once

#include "agent/agent_setup.hpp"
#include "base/time.hpp"
#include "hang/gather/inspection.hpp"

#include <asio/io_context.hpp>

#include <map>
#include <string>

#include <sys/types.h>

namespace muster {

// The look begins this long before the deadline, or after half of the time until the deadline.
inline constexpr Duration kLateLook = std::chrono::seconds(3);

class LateRanks {
 public:
  LateRanks(asio::io_context& loop, const AgentSetup& setup);

  // `pids`: the worker of each rank. The results are complete after at most `within`.
  void look(const std::map<int, pid_t>& pids, Duration within);

  // For example "sleeping in main (train.py:12)"; empty if unknown.
  [[nodiscard]] std::string reason(int rank) const;

 private:
  hang::Inspection inspection_;
  std::map<int, std::string> reasons_;  // by rank
};

}  // namespace muster
