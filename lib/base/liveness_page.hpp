// SPDX-License-Identifier: Apache-2.0
// The protocol that lets the launcher detect a worker's death before the kernel frees the worker's
// memory. A worker connects to its parent's socket and receives the page (a memfd) and the index of
// its word in the page. A thread of the worker then owns the word through the kernel's robust list:
// when the thread dies, the kernel sets kOwnerDied and wakes the waiters. Values; pure except for
// the socket's name.
#pragma once

#include "base/unix_socket.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sys/types.h>

namespace muster {

// One less than futex_waitv's limit, because the launcher's own thread needs one entry.
inline constexpr std::size_t kLivenessWords = 127;

struct LivenessPage {
  // 0, or a thread's ID combined with the two flag bits from base/futex.hpp.
  std::array<std::atomic<std::uint32_t>, kLivenessWords> words;
  // The pid of the worker whose death the launcher detected first. Set before the launcher kills
  // the other workers.
  std::atomic<std::uint32_t> first_dead;
};

inline constexpr std::size_t kLivenessPageBytes = 4096;
static_assert(sizeof(LivenessPage) <= kLivenessPageBytes);

// The launcher's only message, with the page's descriptor attached.
struct LivenessOffer {
  std::uint32_t version = 0;
  std::uint32_t word = 0;
};

inline constexpr std::uint32_t kLivenessVersion = 1;

// The address of the socket of the launcher with this pid, in the caller's PID namespace. It is
// abstract (not in the file system) and not visible in other network namespaces.
[[nodiscard]] UnixAddress liveness_address(pid_t launcher);
// The launcher's second socket. On it, a worker sends kFlightRecorderMessage and the descriptor of
// its host's flight recorders. The launcher keeps the descriptor so that it can read the recorders
// after all processes that wrote them have died.
[[nodiscard]] UnixAddress flight_recorder_address(pid_t launcher);

inline constexpr std::string_view kFlightRecorderMessage = "muster-flights-1";

}  // namespace muster
