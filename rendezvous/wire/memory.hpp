// SPDX-License-Identifier: Apache-2.0
// Memory: what a node has promised about rounds. It is recorded before a round is accepted, so that
// an agent that is started again on the same host can testify for the one before it
// (rendezvous/round/README.md, "Agents that are restarted"). Value; any thread.
#pragma once

#include "base/error.hpp"
#include "rendezvous/wire/round_info.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct Memory {
  RoundPtr started;         // the last round that it was told to start; number 0: none
  RoundPtr accepted;        // a later one that it accepted; number 0: none
  RoundPtr base;            // of `accepted`
  std::vector<NodeId> ids;  // of the agents that this file has served, the last one last
  std::string owner{};      // the job and host that the file is for
};

// The bytes of a record: magic, version of the protocol, a check sum of the rest, the fields.
// Error: protocol, if a list of members is too long; if it is torn, or of another version.
[[nodiscard]] Result<std::string> encode_memory(const Memory& memory);
[[nodiscard]] Result<Memory> decode_memory(std::string_view bytes);

inline constexpr std::string_view kMemoryMagic = "MUSTERMEM";
inline constexpr std::size_t kMemoryHeadBytes =
    kMemoryMagic.size() + sizeof(std::uint16_t) + sizeof(std::uint64_t);

}  // namespace muster
