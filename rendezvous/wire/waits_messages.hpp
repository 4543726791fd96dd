// SPDX-License-Identifier: Apache-2.0
// Messages for finding slow ranks. Each node of a round sends its coordinator how long its ranks
// have waited for others (lib/straggler). Values; encoded by wire/round_encoder. PROTOCOL.md. Any
// thread.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// For one rank in one communicator, since its creation.
struct WaitSum {
  std::int32_t rank = 0;
  bool tells_step = false;
  std::uint64_t step = 0;  // the last one that it reported
  std::string group;       // the same on all ranks of the communicator
  std::uint64_t operations = 0;
  std::uint64_t waits = 0;  // operations that blocked their callers
  Duration waited{};
  bool operator==(const WaitSum&) const = default;
};

// `at`: time of reading, counted from the start of the node's workers. The sums of one rank are
// adjacent. Omitted ranks are not compared.
struct Waited {
  RoundId round;
  Duration at{};
  std::vector<WaitSum> sums;
  bool operator==(const Waited&) const = default;
};

}  // namespace muster
