// SPDX-License-Identifier: Apache-2.0
// Determines what a thread waits for from the contents of /proc/<pid>/task/<tid>/syscall: the kind
// of system call and the arguments that identify a descriptor or a path. No other code contains
// system call numbers. Pure.
#pragma once

#include "hang/evidence.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace muster::hang {

struct SystemCall {
  long number = -1;
  std::array<std::uint64_t, 6> arguments{};
  bool operator==(const SystemCall&) const = default;
};

// None if the thread is "running" or the text is not a system call.
[[nodiscard]] std::optional<SystemCall> parse_system_call(std::string_view line);

// Where to find the call's arguments.
struct CallFacts {
  WaitKind kind = WaitKind::other;
  std::string_view name;
  int fd = -1;                  // the descriptor that the call waits for
  std::uint64_t path_at = 0;    // address of a path in the process; 0 if none
  std::uint64_t polled_at = 0;  // address of a pollfd array
  std::uint64_t fd_set_at = 0;  // address of the fd_set for reading
  bool operator==(const CallFacts&) const = default;
};

[[nodiscard]] CallFacts facts_of(const SystemCall& call);

// The process that holds the file lock that `pid` waits for, according to /proc/locks; 0 if none.
[[nodiscard]] pid_t lock_holder(std::string_view locks, pid_t pid);

}  // namespace muster::hang
