// SPDX-License-Identifier: Apache-2.0
// Finding: what one failed worker left behind, reduced to the facts that failures of several rounds
// can be compared by. Used by the failure history. Value type, pure.
#pragma once

#include "agent/failures/failure.hpp"
#include "agent/failures/judgement.hpp"
#include "base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace muster {

// Ranks that fail with an import, syntax or usage error within this time never ran. Importing
// PyTorch from a busy network file system takes tens of seconds.
inline constexpr Duration kStartupTime = std::chrono::minutes(1);

struct Finding {
  int rank = 0;
  Cause cause = Cause::unknown;
  ExitStatus status;
  Duration run_time{};                // from the start of the worker to its failure
  std::optional<std::uint64_t> step;  // the last reported step
  bool has_traceback = false;
  bool after_stop = false;  // detected after we had asked the workers to stop
  std::string gist;         // "ValueError: bad batch": the error in one line; may be empty
  // The traceback, or the last lines of stderr, without addresses. Empty without any text.
  std::string exact;
  std::string similar;  // like `exact`, with each number replaced by "#"
  bool operator==(const Finding&) const = default;
};

[[nodiscard]] Finding finding_of(const WorkerFailure& failure);

// True if the failure says nothing about its cause: another rank, the scheduler or the kernel
// ended the worker.
[[nodiscard]] bool is_consequence(const Finding& finding);

// True for an import, syntax or usage error of a worker that exited before it did any work.
[[nodiscard]] bool is_startup_error(const Finding& finding);

// True if another process killed the worker and nothing tells why.
[[nodiscard]] bool is_silent_kill(const Finding& finding);

}  // namespace muster
