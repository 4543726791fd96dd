// SPDX-License-Identifier: Apache-2.0
// Messages for finding slow ranks. Each node of a round reports to its coordinator how long its
// ranks have waited for others (lib/straggler). Values; encoded by wire/round_encoder, explained in
// PROTOCOL.md. Thread-safe.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// The waits of one rank in one communicator, since the communicator was created.
struct WaitSum {
  std::int32_t rank = 0;
  bool tells_step = false;
  std::uint64_t step = 0;  // the last step that the rank reported
  std::string group;       // the same string on all ranks of the communicator
  std::uint64_t operations = 0;
  std::uint64_t waits = 0;  // operations that blocked their callers
  Duration waited{};
  bool operator==(const WaitSum&) const = default;
};

// `at` is the time of reading, measured from the start of the node's workers. The sums of one rank
// are adjacent. Ranks that are omitted are not compared.
struct Waited {
  RoundId round;
  Duration at{};
  std::vector<WaitSum> sums;
  bool operator==(const Waited&) const = default;
};

}  // namespace muster
