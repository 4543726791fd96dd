// SPDX-License-Identifier: Apache-2.0
// Judgement: whether a restart can help after a failure, and the facts behind it. The failure
// history makes it; the report, the events and the restart policy read it. Value types, pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace muster {

// The kind of a failure, from the facts that the worker left.
enum class Cause : std::uint8_t {
  unknown,
  bug,          // an exception of the program that no other cause describes
  usage,        // the command line or the configuration is invalid
  import,       // a module or a shared library is missing
  syntax,       // the program cannot be parsed
  host_memory,  // the host ran out of memory
  gpu_memory,   // a GPU ran out of memory
  hardware,     // a driver or the kernel reports a hardware error
  lost_peer,    // the connection to another rank broke: a consequence, never a cause
  numerics,     // a check found NaN or infinite values
  assertion,    // an assertion of the program or of a library failed
  exit_code,    // an exit code that announces whether a restart helps
  signal,       // killed by a signal
  network,      // a service outside the job cannot be reached
  filesystem,   // a file cannot be read or written
  preemption,   // the scheduler or a user stopped the process
};

enum class Advice : std::uint8_t {
  restart,   // a restart may help; also if the cause is unknown
  stop,      // a restart will not help
  bad_node,  // a restart may help on another node
  requeue,   // the program asks to be started again later
};

// "host_memory"
[[nodiscard]] std::string_view name_of(Cause cause);

// "bad_node"
[[nodiscard]] std::string_view name_of(Advice advice);

// `unknown` and `restart` for other names.
[[nodiscard]] Cause cause_named(std::string_view name);
[[nodiscard]] Advice advice_named(std::string_view name);

// True if a broken or overloaded node can be the reason for such a failure. An error of the program
// could have happened on any node.
[[nodiscard]] bool may_be_of_node(Cause cause);

struct Judgement {
  Advice advice = Advice::restart;
  Cause cause = Cause::unknown;
  bool named = false;  // --no-restart-on lists the exit code, so the job does not restart
  std::string text;    // one sentence for users; empty if a restart may help
  bool operator==(const Judgement&) const = default;
};

}  // namespace muster
