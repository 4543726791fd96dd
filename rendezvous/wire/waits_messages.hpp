// SPDX-License-Identifier: Apache-2.0
// Who is slow? Each node of a round tells its coordinator how long its ranks have waited for others
// (lib/straggler). Values; the bytes are made by wire/round_encoder. PROTOCOL.md. Any thread.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Of one rank in one communicator, since that was made.
struct WaitSum {
  std::int32_t rank = 0;
  bool tells_step = false;
  std::uint64_t step = 0;  // the last one that it has told
  std::string group;       // the same on all ranks of the communicator
  std::uint64_t operations = 0;
  std::uint64_t waits = 0;  // operations that held up their callers
  Duration waited{};
  bool operator==(const WaitSum&) const = default;
};

// Read so long after the node's workers were started. The sums of one rank follow each other; who
// is left out is not compared.
struct Waited {
  RoundId round;
  Duration at{};
  std::vector<WaitSum> sums;
  bool operator==(const Waited&) const = default;
};

}  // namespace muster
