// SPDX-License-Identifier: Apache-2.0
// What a coordinator knows about the mends of the running round (mending.cpp). Value.
#pragma once

#include "rendezvous/round/repeated_mends.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace muster {

// A node's last granted request.
struct GrantedMend {
  std::uint64_t number = 0;
  std::vector<std::int32_t> ranks;
};

struct MendsOfRound {
  std::set<NodeId> entered;  // all of their ranks have entered muster.elastic.run
  std::set<NodeId> holders;  // a rank of theirs has the job's state
  std::set<NodeId> unready;  // not all of their ranks work in the current epoch
  std::map<NodeId, GrantedMend> granted;
  std::optional<std::uint64_t> step;  // the highest step that a request has contained
  RepeatedMends repeats;
  bool failed = false;  // a mend ends in a restart of all workers
};

}  // namespace muster
