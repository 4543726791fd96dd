// SPDX-License-Identifier: Apache-2.0
// Messages for finding the rank that stalls the job. A node whose workers make no progress starts
// an inquiry. The coordinator requests findings from all nodes of the round and sends them the
// verdict. Values; encoded by wire/round_encoder, explained in round/questions/inquiry.hpp and
// PROTOCOL.md. Thread-safe.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>

namespace muster {

// The sender's workers have made no progress for too long. `heard` is the last inquiry by this
// coordinator whose verdict the sender has received.
struct Stalled {
  RoundId round;
  std::uint64_t heard = 0;
  bool operator==(const Stalled&) const = default;
};

// Tells a node to inspect its workers and to send Looked within this time and size.
struct Look {
  RoundId round;
  std::uint64_t inquiry = 0;
  Duration within{};
  std::uint32_t bytes_max = 0;
  bool operator==(const Look&) const = default;
};

// The findings of one node. Like the verdict, they are opaque to the rendezvous. Empty if the
// sender does not detect hangs.
struct Looked {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::string findings;
  bool operator==(const Looked&) const = default;
};

// The result of an inquiry, sent to all nodes of the round. Empty if the leader cannot judge.
struct Judged {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::string verdict;
  bool operator==(const Judged&) const = default;
};

}  // namespace muster
