// SPDX-License-Identifier: Apache-2.0
// Memory: the rounds that a node has started and accepted. It is recorded before a round is
// accepted, so that an agent that is restarted on the same host knows what its predecessor accepted
// (rendezvous/round/README.md, "Agents that are restarted"). Value; thread-safe.
#pragma once

#include "base/error.hpp"
#include "rendezvous/wire/round_info.hpp"
#include "rendezvous/wire/round_limits.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct Memory {
  RoundPtr started;         // the last round that the node was ordered to start; number 0 if none
  RoundPtr accepted;        // a later round that the node accepted; number 0 if none
  RoundPtr base;            // the round before `accepted`
  std::vector<NodeId> ids;  // IDs of the agents that used this file; the latest is last
  std::string owner{};      // the job and host to which the file belongs
  std::string job_key{};    // secret; empty if the job's key was not handed out
};

// Encodes a record: magic, protocol version, a checksum of the rest, and the fields. A record
// without a job key ends before that field, as in earlier releases. Errors: protocol, if a list of
// members is too long (encoding), or if the record is corrupt or of another version (decoding).
[[nodiscard]] Result<std::string> encode_memory(const Memory& memory);
[[nodiscard]] Result<Memory> decode_memory(std::string_view bytes);

inline constexpr std::string_view kMemoryMagic = "MUSTERMEM";
inline constexpr std::size_t kMemoryHeadBytes =
    kMemoryMagic.size() + sizeof(std::uint16_t) + sizeof(std::uint64_t);

}  // namespace muster
