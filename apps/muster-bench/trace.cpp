// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/trace.hpp"

#include "base/text.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace muster::bench {
namespace {

struct Attempt {
  std::size_t started = 0;
  std::int64_t last_start = 0;
  std::optional<std::int64_t> crash;
};

std::map<std::int64_t, Attempt> attempts_of(std::string_view notes) {
  std::map<std::int64_t, Attempt> attempts;
  for (const auto& line : split(notes, '\n')) {
    const auto words = split(line, ' ');
    const auto number = words.size() == 4 ? parse_int(words[1]) : std::nullopt;
    const auto when = words.size() == 4 ? parse_int(words[3]) : std::nullopt;
    if (!number || !when) {
      continue;
    }
    auto& attempt = attempts[*number];
    if (words[0] == "crash") {
      attempt.crash = when;
    } else {
      ++attempt.started;
      attempt.last_start = std::max(attempt.last_start, *when);
    }
  }
  return attempts;
}

}  // namespace

std::vector<double> recoveries_of(std::string_view notes, std::size_t workers) {
  constexpr double kPerMillisecond = 1e6;
  std::vector<double> recoveries;
  const auto attempts = attempts_of(notes);
  for (const auto& [number, attempt] : attempts) {
    const auto next = attempts.find(number + 1);
    if (!attempt.crash || attempt.started != workers || *attempt.crash < attempt.last_start ||
        next == attempts.end() || next->second.started != workers) {
      continue;
    }
    recoveries.push_back(static_cast<double>(next->second.last_start - *attempt.crash) /
                         kPerMillisecond);
  }
  return recoveries;
}

std::vector<Member> members_of(std::string_view notes) {
  std::vector<Member> members;
  for (const auto& line : split(notes, '\n')) {
    const auto words = split(line, ' ');
    const auto pid = words.size() == 4 ? parse_int(words[1]) : std::nullopt;
    const auto rank = words.size() == 4 ? parse_int(words[2]) : std::nullopt;
    const auto when = words.size() == 4 ? parse_int(words[3]) : std::nullopt;
    if (words.front() == "member" && pid && rank && when) {
      members.push_back(Member{static_cast<pid_t>(*pid), static_cast<int>(*rank), *when});
    }
  }
  std::ranges::sort(members, {}, &Member::nanoseconds);
  return members;
}

}  // namespace muster::bench
