// SPDX-License-Identifier: Apache-2.0
// Memory: what a node has promised about rounds. It is recorded durably before a round is accepted,
// so that an agent that is started again on the same host can testify for the one before it
// (rendezvous/README.md, "Agents that are started again"). Value; any thread.
#pragma once

#include "rendezvous/wire/round_info.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <algorithm>
#include <memory>
#include <vector>

namespace muster {

struct Memory {
  RoundPtr started;         // the last round that it was told to start; number 0: none
  RoundPtr accepted;        // a later one that it accepted; number 0: none
  RoundPtr base;            // of `accepted`
  std::vector<NodeId> ids;  // of the agents that this file has served, the last one last
};

// The job that the memory is of; 0: of none.
[[nodiscard]] inline std::uint64_t job_of(const Memory& memory) {
  return memory.accepted->id.number > 0 ? memory.accepted->job : memory.started->job;
}

// The same round, with `heir` in the place of a member with one of these ids. The same pointer where
// there is none.
[[nodiscard]] inline RoundPtr inherited(const RoundPtr& round,
                                        const std::vector<NodeId>& ids,
                                        const NodeInfo& heir) {
  const auto is_one = [&](const NodeInfo& member) {
    return std::ranges::find(ids, member.id) != ids.end();
  };
  if (std::ranges::none_of(round->members, is_one)) {
    return round;
  }
  auto changed = std::make_shared<Round>(*round);
  *std::ranges::find_if(changed->members, is_one) = heir;
  return changed;
}

}  // namespace muster
