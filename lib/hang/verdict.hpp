// SPDX-License-Identifier: Apache-2.0
// Verdict: which rank of a job that makes no progress holds up the others, and why. Made by judge,
// shown by the agent. Value types, pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::hang {

enum class Cause {
  unknown,
  stopped,               // by a signal, or held by a debugger
  blocked_io,            // a file, pipe or device that does not answer; a file lock
  spinning,              // runs on and on
  skipped_collective,    // the others wait in an operation that it does not come to
  different_collective,  // its operation is another one than that of the others
  deadlocked,            // threads that wait for locks
  data_loader,           // waits for processes that read its data
  waits_for_child,
  waits_for_socket,
  waits_for_rank,
  waits_for_input,  // standard input
  sleeps,
  waits_for_thread,  // a queue or condition that nobody serves
  all_wait,          // all are in the same operation, which does not complete
  node_silent,       // its node does not answer
};

// "stopped", "blocked_io": for JSON.
[[nodiscard]] std::string_view name_of(Cause cause);

// Ranks that are in the same place for the same reason.
struct Group {
  std::vector<int> ranks{};
  Cause cause = Cause::unknown;
  std::string reason{};              // "sleeps in main (train.py:12)"
  std::string position{};            // "in #119 all_reduce sum f32[25]"; empty: no collective known
  std::vector<std::string> stack{};  // innermost first, of the thread that matters
  std::vector<int> waits_for{};      // ranks
  std::vector<std::string> nodes{};  // many nodes: where the ranks are
  bool operator==(const Group&) const = default;
};

struct Verdict {
  Cause cause = Cause::unknown;
  std::vector<int> ranks{};     // the ones that hold up the others; the first is the one to act on
  std::string reason{};         // in words, without the rank
  std::vector<Group> groups{};  // the odd ones first
  std::vector<std::string> nodes{};  // many nodes: where `ranks` are
  bool operator==(const Verdict&) const = default;
};

}  // namespace muster::hang
