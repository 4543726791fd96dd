// SPDX-License-Identifier: Apache-2.0
// The limits of the frames between nodes, and the first bytes of a connection. A length equal to
// the limit is allowed. rendezvous/PROTOCOL.md describes the reaction to each limit.
#pragma once

#include "base/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

// The first byte of every connection between nodes. No store request in any dialect starts with it,
// so nodes and workers can use the same port.
inline constexpr std::uint8_t kRoundDialect = 0xA7;

// Both directions start with this magic and the version. This format never changes.
inline constexpr std::string_view kRoundMagic = "\xA7MUSTER";
inline constexpr std::uint16_t kRoundVersion = 13;
inline constexpr std::size_t kPreambleBytes = kRoundMagic.size() + sizeof(kRoundVersion);

// After the preamble, the connecting side sends its proofs and the job ID in plaintext, and the
// accepting side replies with one byte.
inline constexpr std::size_t kReplyBytes = 1;

// The length and kind before the body of each frame.
inline constexpr std::size_t kFrameHeadBytes = 5;

// Limit on the length of node names, roles, backends and versions. The length is encoded in one
// byte.
inline constexpr std::size_t kMaxNameBytes = 255;

// Limit on the length of a numeric address with a zone.
inline constexpr std::size_t kMaxAddressBytes = 63;

// Limit on the number of further addresses that a node reports of its host.
inline constexpr std::size_t kMaxHostAddresses = 64;

// Limit on the length of texts for users and of job IDs. The sender truncates longer ones.
inline constexpr std::size_t kMaxTextBytes = 4096;

// Limit on the size of the evidence of a failure.
inline constexpr std::size_t kMaxBlobBytes = 65536;

// Limits on the size of one node's findings about its ranks, and of a verdict on all ranks.
inline constexpr std::size_t kMaxFindingsBytes = 786432;
inline constexpr std::size_t kMaxVerdictBytes = 65536;

// Limit on the size of the request that starts an inquiry.
inline constexpr std::size_t kMaxInquiryBytes = 1024;

// Limit on the number of wait sums in one message. This number fits into a frame even with the
// longest names.
inline constexpr std::size_t kMaxWaitSums = 2048;

// Limit on the number of ranks of one node that are replaced together.
inline constexpr std::size_t kMaxMendRanks = 1024;

// Limit on the number of nodes in a round.
inline constexpr std::size_t kMaxMembers = 65536;

// Limit on the number of former agents whose rounds a restarted agent reports.
inline constexpr std::size_t kMaxFormerIds = 16;

// Limit on the number of lines in one list of a roll call.
inline constexpr std::size_t kMaxRollCallLines = 64;

// Limits on the number of workers on one node, and on the maximum number of nodes in job terms.
inline constexpr std::int32_t kMaxWorkersPerNode = 1'000'000;
inline constexpr std::int32_t kMaxNodesNamed = 1'000'000'000;

// Limit on the number of ports that the node with rank 0 reserves for all workers.
inline constexpr std::int32_t kMaxLeaderPorts = 256;

// Limits on durations. The maximum prevents overflow in calculations. A lease shorter than the
// minimum would cause continuous heartbeats.
inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 366);
inline constexpr Duration kMinLease = std::chrono::milliseconds(1);

// Limits on the size of frame bodies. Only some kinds may exceed the short size, and only from
// known peers (RoundDecoder).
inline constexpr std::uint32_t kMaxShortBody = 16UL * 1024;
inline constexpr std::uint32_t kMaxTextsBody = 1024UL * 1024;
inline constexpr std::uint32_t kMaxListsBody = 16UL * 1024 * 1024;

// The maximum size of a round's member (PROTOCOL.md, "Values"), and the size of a round without
// members.
inline constexpr std::uint64_t kMaxNodeBytes =
    8 + (2 + kMaxNameBytes) + (2 + kMaxAddressBytes) + (2 + kMaxNameBytes) + 2 + 4 + 4;
inline constexpr std::uint64_t kRoundHeadBytes = 8 + 8 + 8 + 4 + 4;

// The largest body with member lists in a job of this size. Rounds has the largest body, with three
// lists.
[[nodiscard]] constexpr std::uint32_t max_lists_body(std::int32_t nodes_max) {
  const auto members = static_cast<std::uint64_t>(std::max(nodes_max, 0));
  const std::uint64_t body = 3 * (kRoundHeadBytes + members * kMaxNodeBytes);
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(body, kMaxShortBody, kMaxListsBody));
}

}  // namespace muster
