// SPDX-License-Identifier: Apache-2.0
// The limits of frames between nodes, and the first bytes of a connection. A length equal to the
// limit is allowed. rendezvous/PROTOCOL.md describes the reaction to each limit.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

// First byte of every connection between nodes. It is not a store request in any dialect, so nodes
// and workers may use the same port.
inline constexpr std::uint8_t kRoundDialect = 0xA7;

// Both directions begin with this and the version. This format never changes.
inline constexpr std::string_view kRoundMagic = "\xA7MUSTER";
inline constexpr std::uint16_t kRoundVersion = 8;
inline constexpr std::size_t kPreambleBytes = kRoundMagic.size() + sizeof(kRoundVersion);

// After the preamble, always in plaintext: the connecting side sends its keys and the job id, the
// accepting side one byte.
inline constexpr std::size_t kReplyBytes = 1;

// Length and kind before each frame's body.
inline constexpr std::size_t kFrameHeadBytes = 5;

// Node names, roles, back ends, versions: their length is one byte.
inline constexpr std::size_t kMaxNameBytes = 255;

// A numeric address with a zone.
inline constexpr std::size_t kMaxAddressBytes = 63;

// Texts for users, and job ids. The sender truncates longer ones.
inline constexpr std::size_t kMaxTextBytes = 4096;

// Evidence of a failure.
inline constexpr std::size_t kMaxBlobBytes = 65536;

// One node's findings about its ranks, and a verdict on those of all nodes.
inline constexpr std::size_t kMaxFindingsBytes = 786432;
inline constexpr std::size_t kMaxVerdictBytes = 65536;

// Wait sums in one message. This number fits with the longest names.
inline constexpr std::size_t kMaxWaitSums = 2048;

// Nodes of one round.
inline constexpr std::size_t kMaxMembers = 65536;

// Former agents for which a restarted one testifies.
inline constexpr std::size_t kMaxFormerIds = 16;

// Lines of one list in a roll call.
inline constexpr std::size_t kMaxRollCallLines = 64;

// Workers of one node, and the maximum number of nodes in job terms.
inline constexpr std::int32_t kMaxWorkersPerNode = 1'000'000;
inline constexpr std::int32_t kMaxNodesNamed = 1'000'000'000;

// Ports that the node with rank 0 reserves for all workers.
inline constexpr std::int32_t kMaxLeaderPorts = 256;

// Durations: arithmetic on them cannot overflow. A shorter lease would mean continuous heartbeats.
inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 366);
inline constexpr Duration kMinLease = std::chrono::milliseconds(1);

// Frame bodies. Only some kinds may exceed the short size, and only from known peers
// (RoundDecoder).
inline constexpr std::uint32_t kMaxShortBody = 16UL * 1024;
inline constexpr std::uint32_t kMaxTextsBody = 1024UL * 1024;
inline constexpr std::uint32_t kMaxListsBody = 16UL * 1024 * 1024;

// A member of a round at maximum size (PROTOCOL.md, "Values"), and a round without members.
inline constexpr std::uint64_t kMaxNodeBytes =
    8 + (2 + kMaxNameBytes) + (2 + kMaxAddressBytes) + (2 + kMaxNameBytes) + 2 + 4 + 4;
inline constexpr std::uint64_t kRoundHeadBytes = 8 + 8 + 8 + 4 + 4;

// The largest body with member lists in a job of this size: Rounds, which has three lists.
[[nodiscard]] constexpr std::uint32_t max_lists_body(std::int32_t nodes_max) {
  const auto members = static_cast<std::uint64_t>(std::max(nodes_max, 0));
  const std::uint64_t body = 3 * (kRoundHeadBytes + members * kMaxNodeBytes);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(body, kMaxShortBody, kMaxListsBody));
}

}  // namespace muster
