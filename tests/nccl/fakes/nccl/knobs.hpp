// SPDX-License-Identifier: Apache-2.0
// Faults of the fake NCCL, read from MUSTER_FAKE_NCCL when a communicator starts: words with an
// optional value, and @RANK if only one rank has the fault:
//   hang_at=N          the N-th operation never ends     die_at=N       SIGKILL at the N-th
//   async_error_at=N:E the N-th fails with result E      init_ms=N      duration of startup
//   in_progress=K      K polls until an operation has    init_error=E   startup fails
//                      been queued (default 1, because NCCL 2.28 and 2.30 queue in a thread)
//   init_hangs         startup never ends                abort_hangs    ncclCommAbort never returns
//   call_ms=N          duration of every call
//   blind              ignores the death of a peer       version=V      result of ncclGetVersion
#pragma once

#include <cstdlib>
#include <sstream>
#include <string>

namespace muster::fake {

struct Knobs {
  long hang_at = -1;
  long die_at = -1;
  long async_error_at = -1;
  long async_error = 6;
  long init_ms = 0;
  long in_progress = 1;
  long init_error = 0;
  long call_ms = 0;
  bool init_hangs = false;
  bool abort_hangs = false;
  bool blind = false;
  long version = 0;
};

inline void read_knob(Knobs& knobs, const std::string& name, const std::string& value) {
  const long number = std::strtol(value.c_str(), nullptr, 10);
  knobs.hang_at = name == "hang_at" ? number : knobs.hang_at;
  knobs.die_at = name == "die_at" ? number : knobs.die_at;
  knobs.init_ms = name == "init_ms" ? number : knobs.init_ms;
  knobs.in_progress = name == "in_progress" ? number : knobs.in_progress;
  knobs.init_error = name == "init_error" ? number : knobs.init_error;
  knobs.call_ms = name == "call_ms" ? number : knobs.call_ms;
  knobs.version = name == "version" ? number : knobs.version;
  knobs.init_hangs |= name == "init_hangs";
  knobs.abort_hangs |= name == "abort_hangs";
  knobs.blind |= name == "blind";
  if (name == "async_error_at") {
    knobs.async_error_at = number;
    const auto colon = value.find(':');
    knobs.async_error =
        colon == std::string::npos ? 6 : std::strtol(&value[colon + 1], nullptr, 10);
  }
}

// The knobs of a rank; -1: of the process.
[[nodiscard]] inline Knobs read_knobs(int rank) {
  Knobs knobs;
  const char* text = std::getenv("MUSTER_FAKE_NCCL");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream words(text == nullptr ? "" : text);
  for (std::string word; words >> word;) {
    const auto at = word.find('@');
    if (at != std::string::npos && std::strtol(&word[at + 1], nullptr, 10) != rank) {
      continue;
    }
    word = word.substr(0, at);
    const auto equals = word.find('=');
    read_knob(
        knobs, word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1));
  }
  return knobs;
}

}  // namespace muster::fake
