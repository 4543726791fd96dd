// SPDX-License-Identifier: Apache-2.0
#include "remote/rsh_failure.hpp"

#include "base/text.hpp"
#include "remote/launch_plan.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace muster {
namespace {

constexpr std::size_t kLineBytesShown = 300;
constexpr int kNotFound = 127;
constexpr int kNotExecutable = 126;
constexpr int kSshFailed = 255;
constexpr int kOtherFailed = 1;  // used by kubectl exec and docker exec
constexpr Duration kFirstPause = std::chrono::milliseconds(500);
constexpr int kDoublingsMax = 3;

// ssh's messages for permanent failures.
constexpr auto kLasting = std::to_array<std::string_view>({"Permission denied",
                                                           "Host key verification failed",
                                                           "Too many authentication failures",
                                                           "Bad configuration option"});

}  // namespace

std::string last_line_of(std::string_view text) {
  std::string found;
  for (const std::string& line : split(text, '\n')) {
    if (const auto words = trim(line); !words.empty()) {
      found = words.substr(0, kLineBytesShown);
    }
  }
  std::ranges::replace_if(
      found, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return found;
}

namespace {

// Formats the ssh command line without the command that it runs on the remote host.
std::string describe_one(const RshEnd& end) {
  const std::span<const std::string> words(end.argv);
  const std::string command =
      quoted(words.first(words.size() - std::min<std::size_t>(words.size(), 1)));
  const std::string why = end.last_line.empty() ? end.status.describe() : end.last_line;
  if (end.answered) {
    return fmt::format("{}: the connection broke ({}: {})", end.name, command, why);
  }
  const bool no_muster =
      !end.status.signaled && (end.status.value == kNotFound || end.status.value == kNotExecutable);
  if (no_muster) {
    return fmt::format(
        "{}: cannot start muster there ({}: {}). Install it at the same path as here, or use "
        "--rsh-muster=PATH",
        end.name,
        command,
        why);
  }
  return fmt::format("cannot reach {} with '{}': {}", end.name, command, why);
}

}  // namespace

bool may_pass(const RshEnd& end) {
  const bool failed =
      !end.status.signaled && (end.status.value == kSshFailed || end.status.value == kOtherFailed);
  return failed && !end.answered && std::ranges::none_of(kLasting, [&](std::string_view text) {
           return end.last_line.contains(text);
         });
}

Duration retry_delay(int failures, double spread) {
  const int doublings = std::min(failures - 1, kDoublingsMax);
  return std::chrono::duration_cast<Duration>((0.5 + spread) * kFirstPause * (1 << doublings));
}

double spread_of(std::size_t host, int failures) {
  constexpr double kGolden = 0.618033988749895;
  const double turns = kGolden * static_cast<double>(host + 1) * failures;
  return turns - std::floor(turns);
}

std::string describe(const RshEnd& end) {
  const std::string with = end.behind == 0 ? "" : fmt::format("; dependent hosts: {}", end.behind);
  return describe_one(end) + with;
}

}  // namespace muster
