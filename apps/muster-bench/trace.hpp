// SPDX-License-Identifier: Apache-2.0
// What the workers of the restart block noted: "start ATTEMPT RANK NANOSECONDS" and "crash …", by
// the monotonic clock that all processes of a machine share. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster::bench {

// For each crash the milliseconds until the last of `workers` workers of the next attempt started.
// A crash before all workers of its own attempt ran, or without a complete next attempt, does not
// count.
[[nodiscard]] std::vector<double> recoveries_of(std::string_view notes, std::size_t workers);

// A start noted by a worker of a job of many nodes: "member PID RANK NANOSECONDS".
struct Member {
  pid_t pid = 0;
  int rank = 0;
  std::int64_t nanoseconds = 0;
};

// In the order of their starts.
[[nodiscard]] std::vector<Member> members_of(std::string_view notes);

}  // namespace muster::bench
