// SPDX-License-Identifier: Apache-2.0
// What the launcher and the collective library agree on, so that the launcher sees a worker's death
// before the kernel frees its memory. A worker connects to its parent's socket and is given the
// page (a memfd) and the number of its word in it; a thread of the worker then holds the word as
// the kernel's robust list has it: at the thread's end the kernel sets kOwnerDied and wakes who
// waits. Values, pure but for the name of the socket.
#pragma once

#include "base/unix_socket.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sys/types.h>

namespace muster {

// One less than futex_waitv takes: its last place is for the launcher's own thread.
inline constexpr std::size_t kLivenessWords = 127;

struct LivenessPage {
  // 0, or a thread's id with the two bits of base/futex.hpp.
  std::array<std::atomic<std::uint32_t>, kLivenessWords> words;
  // The process id of the worker that the launcher saw die first; it ends the others only then.
  std::atomic<std::uint32_t> first_dead;
};

inline constexpr std::size_t kLivenessPageBytes = 4096;
static_assert(sizeof(LivenessPage) <= kLivenessPageBytes);

// The launcher's one message, with the page's descriptor beside it.
struct LivenessOffer {
  std::uint32_t version = 0;
  std::uint32_t word = 0;
};

inline constexpr std::uint32_t kLivenessVersion = 1;

// Of the launcher with this pid, in the PID namespace of the caller. Has no place in the file
// system; in another network namespace there is no such socket.
[[nodiscard]] UnixAddress liveness_address(pid_t launcher);
// The same launcher's other socket: a worker sends kFlightRecorderMessage and the descriptor of the
// flight recorders of its host, for the launcher to hold when all who wrote them are dead.
[[nodiscard]] UnixAddress flight_recorder_address(pid_t launcher);

inline constexpr std::string_view kFlightRecorderMessage = "muster-flights-1";

}  // namespace muster
