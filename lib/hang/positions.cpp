// SPDX-License-Identifier: Apache-2.0
#include "hang/positions.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster::hang {
namespace {

// What must be the same on all ranks: without the number, with the root.
std::string what_of(const collective::Request& request) {
  const std::string text = request.describe();  // "all_reduce #119 sum f32[25]"
  const auto mark = text.find(" #");
  const auto end = mark == std::string::npos ? mark : text.find(' ', mark + 1);
  std::string out = text.substr(0, mark);
  out += end == std::string::npos ? "" : text.substr(end);
  const bool rooted = request.root >= 0 && !collective::is_transfer(request.kind) &&
                      out.find("root") == std::string::npos;
  return rooted ? out + fmt::format(" root {}", request.root) : out;
}

Operation operation_of(const collective::FlightRecord& record, std::uint64_t now) {
  Operation out;
  out.number = record.request.seq;
  out.what = what_of(record.request);
  out.peer = collective::is_transfer(record.request.kind) ? record.request.root : -1;
  out.age = record.queued_ns > 0 && now > record.queued_ns ? now - record.queued_ns : 0;
  return out;
}

Position position_of(const collective::FlightLog& log, std::uint64_t now) {
  Position out;
  out.group = fmt::format("{}, epoch {}", log.name, log.epoch);
  out.rank = log.rank;
  out.size = log.size;
  for (const collective::FlightRecord& record : log.records) {
    const Operation operation = operation_of(record, now);
    if (operation.peer < 0) {
      out.entered = std::max(out.entered, operation.number);
    }
    (record.completed_ns == 0 ? out.pending : out.recent).push_back(operation);
  }
  if (out.recent.size() > kRecentMax) {
    out.recent.erase(out.recent.begin(), out.recent.end() - kRecentMax);
  }
  return out;
}

}  // namespace

std::vector<std::pair<pid_t, Position>> positions_of(const std::vector<collective::FlightLog>& logs,
                                                     std::uint64_t now) {
  std::vector<std::pair<pid_t, Position>> out;
  for (const collective::FlightLog& log : logs) {
    out.emplace_back(log.pid, position_of(log, now));
  }
  return out;
}

}  // namespace muster::hang
