// SPDX-License-Identifier: Apache-2.0
// NodeHistory: the nodes on which rounds of earlier jobs failed first, as in the file of
// --node-history. One line of JSON per entry, so that several jobs can append to the file. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// Older entries do not count.
inline constexpr double kHistorySeconds = 7.0 * 24 * 3600;

// A file that would grow beyond this size is rewritten with the newest half of its entries.
inline constexpr std::size_t kHistoryBytesMax = std::size_t{1} << 20;

struct HistoryEntry {
  double unix_time = 0;
  std::string node;
  std::string run;    // --rdzv-id
  std::string cause;  // of the last failure, as in judgement.hpp
  bool operator==(const HistoryEntry&) const = default;
};

struct NodeHistory {
  std::vector<HistoryEntry> entries;
  std::size_t unreadable = 0;  // lines that contain no entry of this version
};

// One line, including its end.
[[nodiscard]] std::string history_line(const HistoryEntry& entry);

[[nodiscard]] NodeHistory parse_history(std::string_view text);

// The last whole lines of the text, at most half of the limit.
[[nodiscard]] std::string_view newest_half(std::string_view text);

// The recent entries about this host, the newest one last.
[[nodiscard]] std::vector<HistoryEntry> entries_of(const NodeHistory& history,
                                                   const std::string& host,
                                                   double unix_now);

}  // namespace muster
