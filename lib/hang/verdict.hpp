// SPDX-License-Identifier: Apache-2.0
// Verdict: which rank of a job without progress stalls the others, and why. Made by judge, shown by
// the agent. Value types, pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::hang {

enum class Cause {
  unknown,
  stopped,               // by a signal, or held by a debugger
  blocked_io,            // a file, pipe or device that does not respond; a file lock
  spinning,              // endless loop
  skipped_collective,    // the others wait in an operation that it does not reach
  different_collective,  // its operation differs from the others'
  deadlocked,            // threads that wait for locks
  data_loader,           // waits for DataLoader processes
  waits_for_child,
  waits_for_socket,
  waits_for_rank,
  waits_for_input,  // standard input
  sleeps,
  waits_for_thread,  // a queue or condition without a producer
  all_wait,          // all ranks are in the same operation, which does not complete
  node_silent,       // its node does not respond
};

// "stopped", "blocked_io": for JSON.
[[nodiscard]] std::string_view name_of(Cause cause);

// Ranks in the same place for the same reason.
struct Group {
  std::vector<int> ranks{};
  Cause cause = Cause::unknown;
  std::string reason{};              // "sleeping in main (train.py:12)"
  std::string position{};            // "in #119 all_reduce sum f32[25]"; empty: no collective known
  std::vector<std::string> stack{};  // innermost first, of the thread that matters
  std::vector<int> waits_for{};      // ranks
  std::vector<std::string> nodes{};  // many nodes: the ranks' nodes
  bool operator==(const Group&) const = default;
};

struct Verdict {
  Cause cause = Cause::unknown;
  std::vector<int> ranks{};          // ranks that stall the others; act on the first
  std::string reason{};              // in words, without the rank
  std::vector<Group> groups{};       // blamed and small groups first
  std::vector<std::string> nodes{};  // many nodes: the nodes of `ranks`
  bool operator==(const Verdict&) const = default;
};

}  // namespace muster::hang
