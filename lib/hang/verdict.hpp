// SPDX-License-Identifier: Apache-2.0
// Verdict: which rank stalls a job that makes no progress, and why. Created by judge, printed by
// the agent. Value types, pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::hang {

enum class Cause {
  unknown,
  stopped,               // stopped by a signal or a debugger
  blocked_io,            // waits for a file, pipe, device or file lock
  spinning,              // endless loop
  skipped_collective,    // does not reach the operation in which the others wait
  different_collective,  // is in a different operation than the others
  deadlocked,            // its threads wait for locks
  data_loader,           // waits for DataLoader processes
  waits_for_child,
  waits_for_socket,
  waits_for_rank,
  waits_for_input,  // reads from standard input
  sleeps,
  waits_for_thread,  // waits on a queue or condition variable without a producer
  all_wait,          // all ranks are in the same operation, which is not completing
  node_silent,       // the rank's node does not respond
};

// The name for JSON, for example "stopped" or "blocked_io".
[[nodiscard]] std::string_view name_of(Cause cause);

// Ranks that are in the same place for the same reason.
struct Group {
  std::vector<int> ranks{};
  Cause cause = Cause::unknown;
  std::string reason{};              // "sleeping in main (train.py:12)"
  std::string position{};            // "in #119 all_reduce sum f32[25]"; empty if unknown
  std::vector<std::string> stack{};  // stack of the relevant thread, innermost frame first
  std::vector<int> waits_for{};      // ranks that these ranks wait for
  std::vector<std::string> nodes{};  // multi-node: the nodes of `ranks`
  bool operator==(const Group&) const = default;
};

struct Verdict {
  Cause cause = Cause::unknown;
  std::vector<int> ranks{};     // ranks that stall the job; the action applies to the first rank
  std::string reason{};         // description of the cause, without the rank
  std::vector<Group> groups{};  // blamed groups and small groups come first
  std::vector<std::string> nodes{};  // multi-node: the nodes of `ranks`
  bool operator==(const Verdict&) const = default;
};

}  // namespace muster::hang
