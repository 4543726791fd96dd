// SPDX-License-Identifier: Apache-2.0
// Every limit of the frames between nodes, and what a connection begins with. A length that is
// exactly the limit is allowed. What happens at a limit is in rendezvous/PROTOCOL.md.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

// First byte of every connection between nodes. No request of the store in any dialect, so that
// nodes and workers may dial the same port.
inline constexpr std::uint8_t kRoundDialect = 0xA7;

// Both directions begin with this and the version. Neither ever changes.
inline constexpr std::string_view kRoundMagic = "\xA7MUSTER";
inline constexpr std::uint16_t kRoundVersion = 1;
inline constexpr std::size_t kPreambleBytes = kRoundMagic.size() + sizeof(kRoundVersion);

// Length and kind in front of each frame's body.
inline constexpr std::size_t kFrameHeadBytes = 5;

// Node names, roles, back ends, versions: their length is one byte.
inline constexpr std::size_t kMaxNameBytes = 255;

// A numeric address with a zone.
inline constexpr std::size_t kMaxAddressBytes = 63;

// Sentences for people, and job ids. What is longer is cut by the sender.
inline constexpr std::size_t kMaxTextBytes = 4096;

// Sighting of a failure.
inline constexpr std::size_t kMaxBlobBytes = 65536;

// Nodes of one round.
inline constexpr std::size_t kMaxMembers = 65536;

// Lines of one list in a roll call.
inline constexpr std::size_t kMaxRollCallLines = 64;

// Workers of one node, and nodes of a job as terms may name them.
inline constexpr std::int32_t kMaxWorkersPerNode = 1'000'000;
inline constexpr std::int32_t kMaxNodesNamed = 1'000'000'000;

// Durations: arithmetic with them cannot overflow. A lease of less would be beats without end.
inline constexpr Duration kMaxDuration = std::chrono::hours(24 * 366);
inline constexpr Duration kMinLease = std::chrono::milliseconds(1);

// Bodies of frames. Only those with member lists can be long; from whom nobody has welcomed they
// are not even accepted up to that length.
inline constexpr std::uint32_t kMaxShortBody = 16UL * 1024;
inline constexpr std::uint32_t kMaxTextsBody = 1024UL * 1024;
inline constexpr std::uint32_t kMaxListsBody = 16UL * 1024 * 1024;
inline constexpr std::uint32_t kMaxUntrustedBody = 1024UL * 1024;

}  // namespace muster
