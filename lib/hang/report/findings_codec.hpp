// SPDX-License-Identifier: Apache-2.0
// Serializes the data that nodes exchange about a hang: one node's findings, and the verdict on all
// nodes (rendezvous/PROTOCOL.md, "Stalled jobs"). Data from other nodes is checked and limited in
// size. Pure.
#pragma once

#include "base/error.hpp"
#include "hang/report/whole_job.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::hang {

// Levels of detail, tried in order until a message fits. If the message is too large even at the
// last level, ranks are dropped.
struct FindingsDetail {
  std::size_t operations = 0;  // operations in each list of a position
  std::size_t stack = 0;       // lines of each stack
};

inline constexpr FindingsDetail kFindingsDetails[] = {{16, 12}, {4, 4}, {1, 0}};

inline constexpr std::size_t kPositionsToldMax = 32;
inline constexpr std::size_t kGapsToldMax = 16;
inline constexpr std::size_t kGroupsToldMax = 64;
inline constexpr std::size_t kNodesToldMax = 256;
inline constexpr std::size_t kReasonBytesMax = 1000;
inline constexpr std::size_t kWordBytesMax = 300;

// Encodes a summary (whole_job.hpp) in at most this many bytes.
[[nodiscard]] std::string encode_findings(const Evidence& summary, std::size_t bytes_max);
[[nodiscard]] Result<Evidence> decode_findings(std::string_view bytes);

[[nodiscard]] std::string encode_verdict(const WholeVerdict& verdict, std::size_t bytes_max);
[[nodiscard]] Result<WholeVerdict> decode_verdict(std::string_view bytes);

}  // namespace muster::hang
