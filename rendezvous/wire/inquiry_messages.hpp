// SPDX-License-Identifier: Apache-2.0
// Who holds up the job? Asked by a node whose workers make no progress; the coordinator then asks
// all nodes of the round to look at theirs, and tells all of them what follows. Values; the bytes
// are made by wire/round_encoder, the meaning is in round/questions/inquiry.hpp. PROTOCOL.md. Any
// thread.
#pragma once

#include "base/time.hpp"
#include "rendezvous/wire/round_info.hpp"

#include <cstdint>
#include <string>

namespace muster {

// My workers have made no progress for too long. `heard`: the last inquiry of this coordinator
// whose end I know of.
struct Stalled {
  RoundId round;
  std::uint64_t heard = 0;
  bool operator==(const Stalled&) const = default;
};

// Look at your workers, and answer Looked within this time and in so many bytes.
struct Look {
  RoundId round;
  std::uint64_t inquiry = 0;
  Duration within{};
  std::uint32_t bytes_max = 0;
  bool operator==(const Look&) const = default;
};

// What was seen: opaque to the rendezvous, as is the verdict. Empty: I do not look.
struct Looked {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::string findings;
  bool operator==(const Looked&) const = default;
};

// The end of an inquiry, to all nodes of the round. Empty: who leads cannot judge.
struct Judged {
  RoundId round;
  std::uint64_t inquiry = 0;
  std::string verdict;
  bool operator==(const Judged&) const = default;
};

}  // namespace muster
