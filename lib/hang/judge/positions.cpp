// SPDX-License-Identifier: Apache-2.0
#include "hang/judge/positions.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster::hang {
namespace {

// The part of the description that must be the same on all ranks. It includes the root but not the
// sequence number.
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
  // The worker writes the record, so its time is untrusted. It may also be later than `now`.
  out.age = record.queued_ns > 0 && now > record.queued_ns ? now - record.queued_ns : 0;
  return out;
}

// Operations on GPUs are numbered separately, so they have their own position.
Position position_of(const collective::FlightLog& log, bool on_gpu, std::uint64_t now) {
  Position out;
  out.group = fmt::format("{}, epoch {}{}", log.name, log.epoch, on_gpu ? ", on GPUs" : "");
  out.rank = log.rank;
  out.size = log.size;
  std::vector<const collective::FlightRecord*> completed;
  for (const collective::FlightRecord& record : log.records) {
    if (record.on_gpu != on_gpu) {
      continue;
    }
    if (!collective::is_transfer(record.request.kind)) {
      out.entered = std::max(out.entered, record.request.seq);
    }
    if (record.completed_ns != 0) {
      completed.push_back(&record);
    } else if (out.pending.size() < kPendingMax) {
      out.pending.push_back(operation_of(record, now));
    }
  }
  const std::size_t old = completed.size() - std::min(completed.size(), kRecentMax);
  for (std::size_t i = old; i < completed.size(); ++i) {
    out.recent.push_back(operation_of(*completed[i], now));
  }
  return out;
}

}  // namespace

std::vector<std::pair<pid_t, Position>> positions_of(const std::vector<collective::FlightLog>& logs,
                                                     std::uint64_t now) {
  std::vector<std::pair<pid_t, Position>> out;
  for (const collective::FlightLog& log : logs) {
    // Add both positions, even if the rank has called no operation, because other ranks may be
    // waiting for the rank.
    out.emplace_back(log.pid, position_of(log, false, now));
    out.emplace_back(log.pid, position_of(log, true, now));
  }
  return out;
}

}  // namespace muster::hang
