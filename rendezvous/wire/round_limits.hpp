// SPDX-License-Identifier: Apache-2.0
// Every limit of the frames between nodes, and what a connection begins with. A length that is
// exactly the limit is allowed. What happens at a limit is in rendezvous/PROTOCOL.md.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

// First byte of every connection between nodes. No request of the store in any dialect, so that
// nodes and workers may dial the same port.
inline constexpr std::uint8_t kRoundDialect = 0xA7;

// Both directions begin with this and the version. Neither ever changes.
inline constexpr std::string_view kRoundMagic = "\xA7MUSTER";
inline constexpr std::uint16_t kRoundVersion = 8;
inline constexpr std::size_t kPreambleBytes = kRoundMagic.size() + sizeof(kRoundVersion);

// What follows the preamble, always in the clear: of who connected, whether TLS is to follow, and
// the job's id; of who accepted, one byte.
inline constexpr std::size_t kReplyBytes = 1;

// Length and kind in front of each frame's body.
inline constexpr std::size_t kFrameHeadBytes = 5;

// Node names, roles, back ends, versions: their length is one byte.
inline constexpr std::size_t kMaxNameBytes = 255;

// A numeric address with a zone.
inline constexpr std::size_t kMaxAddressBytes = 63;

// Sentences for people, and job ids. What is longer is cut by the sender.
inline constexpr std::size_t kMaxTextBytes = 4096;

// Evidence of a failure.
inline constexpr std::size_t kMaxBlobBytes = 65536;

// What one node has seen of its ranks, and a verdict on those of all nodes.
inline constexpr std::size_t kMaxFindingsBytes = 786432;
inline constexpr std::size_t kMaxVerdictBytes = 65536;

// Sums of waiting that a node tells at one time: as many fit with the longest names.
inline constexpr std::size_t kMaxWaitSums = 2048;

// Nodes of one round.
inline constexpr std::size_t kMaxMembers = 65536;

// Agents in whose name one that was started again testifies.
inline constexpr std::size_t kMaxFormerIds = 16;

// Lines of one list in a roll call.
inline constexpr std::size_t kMaxRollCallLines = 64;

// Workers of one node, and nodes of a job as terms may name them.
inline constexpr std::int32_t kMaxWorkersPerNode = 1'000'000;
inline constexpr std::int32_t kMaxNodesNamed = 1'000'000'000;

// Ports that the node of rank 0 reserves for all workers.
inline constexpr std::int32_t kMaxLeaderPorts = 256;

// Durations: arithmetic with them cannot overflow. A lease of less would be beats without end.
inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 366);
inline constexpr Duration kMinLease = std::chrono::milliseconds(1);

// Bodies of frames. Only some kinds may be longer than a short one, and only from whom we know
// (RoundDecoder).
inline constexpr std::uint32_t kMaxShortBody = 16UL * 1024;
inline constexpr std::uint32_t kMaxTextsBody = 1024UL * 1024;
inline constexpr std::uint32_t kMaxListsBody = 16UL * 1024 * 1024;

// A member of a round at its longest (PROTOCOL.md, "Values"), and a round without any.
inline constexpr std::uint64_t kMaxNodeBytes =
    8 + (2 + kMaxNameBytes) + (2 + kMaxAddressBytes) + (2 + kMaxNameBytes) + 2 + 4 + 4;
inline constexpr std::uint64_t kRoundHeadBytes = 8 + 8 + 8 + 4 + 4;

// The longest body with lists of members in a job of so many nodes: Rounds, with three of them.
[[nodiscard]] constexpr std::uint32_t max_lists_body(std::int32_t nodes_max) {
  const auto members = static_cast<std::uint64_t>(std::max(nodes_max, 0));
  const std::uint64_t body = 3 * (kRoundHeadBytes + members * kMaxNodeBytes);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(body, kMaxShortBody, kMaxListsBody));
}

}  // namespace muster
