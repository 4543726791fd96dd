// SPDX-License-Identifier: Apache-2.0
#include "agent/failures/node_history.hpp"

#include "agent/failures/report_json.hpp"
#include "base/json_dump.hpp"
#include "base/same_host.hpp"
#include "base/text.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>

namespace muster {
namespace {

constexpr int kHistoryVersion = 1;

// Clocks of hosts differ, so an entry may seem to be from the near future.
constexpr double kClockSkewMax = 3600;

// "2026-11-30T09:00:00Z"
std::string date_of(double unix_time) {
  const auto seconds = static_cast<std::time_t>(unix_time);
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  std::string text(sizeof("2026-11-30T09:00:00Z"), '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
  return text;
}

std::string text_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<HistoryEntry> entry_in(std::string_view line) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) {
    return std::nullopt;
  }
  const auto version = json.find("v");
  const auto time = json.find("time");
  HistoryEntry entry{0, text_in(json, "node"), text_in(json, "run"), text_in(json, "cause")};
  if (version == json.end() || *version != kHistoryVersion || time == json.end() ||
      !time->is_number() || entry.node.empty()) {
    return std::nullopt;
  }
  entry.unix_time = time->get<double>();
  return entry;
}

}  // namespace

std::string history_line(const HistoryEntry& entry) {
  Json json;
  json["v"] = kHistoryVersion;
  json["time"] = static_cast<std::int64_t>(entry.unix_time);
  json["date"] = date_of(entry.unix_time);
  json["node"] = entry.node;
  json["run"] = entry.run;
  json["cause"] = entry.cause;
  return dump_json(std::move(json)) + "\n";
}

NodeHistory parse_history(std::string_view text) {
  NodeHistory out;
  for (const std::string& line : split(text, '\n')) {
    if (trim(line).empty()) {
      continue;
    }
    if (auto entry = entry_in(line)) {
      out.entries.push_back(std::move(*entry));
    } else {
      ++out.unreadable;
    }
  }
  return out;
}

std::string_view newest_half(std::string_view text) {
  constexpr std::size_t kHalf = kHistoryBytesMax / 2;
  if (text.size() <= kHalf) {
    return text;
  }
  // Begin after the end of a line, so that no line is cut.
  const auto end = text.find('\n', text.size() - kHalf - 1);
  return end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
}

std::vector<HistoryEntry> entries_of(const NodeHistory& history,
                                     const std::string& host,
                                     double unix_now) {
  std::vector<HistoryEntry> found;
  for (const HistoryEntry& entry : history.entries) {
    const double age = unix_now - entry.unix_time;
    if (is_same_host(entry.node, host) && age < kHistorySeconds && age > -kClockSkewMax) {
      found.push_back(entry);
    }
  }
  std::ranges::stable_sort(found, {}, &HistoryEntry::unix_time);
  return found;
}

}  // namespace muster
