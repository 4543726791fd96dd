// SPDX-License-Identifier: Apache-2.0
// The states of the supervisor core, and what it knows about the replacement of workers. Values.
#pragma once

#include "agent/supervisor/supervisor_settings.hpp"
#include "base/time.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace muster {

// clearing: the workers have exited; the processes that they left running have time to exit.
// waiting: this node has finished (or was asked to leave) and waits to be released.
// mending: failed workers are being replaced, while the others continue to run.
enum class SupervisorState {
  joining,
  running,
  mending,
  stopping,
  clearing,
  killing,
  waiting,
  done
};

// Leftovers have time to exit on their own (more if all workers have succeeded), then get SIGTERM.
enum class ClearPhase { settling, finishing, asked };

// Why the workers are being stopped, or are not restarted.
// preempted: the deadline of a preemption has passed.
enum class StopReason {
  nothing,
  finished,
  regroup,
  give_up,
  interrupted,
  orphaned,
  closed,
  preempted
};

// Processes that workers leave running (supervisor_clearing.cpp).
struct LeftoverState {
  ClearPhase phase = ClearPhase::settling;
  std::optional<TimePoint> kill_all_at;  // while killing: helpers may exit on their own until then
  std::optional<TimePoint> skipped_at;   // when to signal the groups of workers that had exited
  std::optional<TimePoint> look_at;      // next check for leftovers that ignore SIGTERM
  bool shm_manager = false;              // a torch_shm_manager was seen in this attempt
};

struct SupervisorTimes {
  TimePoint now{};           // of the last step
  TimePoint spawned_at{};    // when the last worker of this attempt was started
  TimePoint failed_at{};     // when the first failure of this attempt was detected
  TimePoint signalled_at{};  // when the first stop request was received
  TimePoint finish_until{};  // deadline for leftovers of workers that succeeded
  TimePoint dying_until{};   // deadline for the kernel to free the memory of dying workers
};

// A preemption (supervisor_preempt.cpp).
struct PreemptState {
  std::optional<TimePoint> by;  // when workers that have not saved yet are killed
  bool of_node = false;         // the job continues without the node that the scheduler stops
  std::string why{};            // the source of the notice
  bool unfinished = false;      // a worker has exited with kPreemptedCode, or was killed
  bool has_expired = false;     // the workers were killed at the deadline: they have not failed
  bool regroups = false;        // the other nodes wait for this node's workers
};

// The replacement of failed workers (supervisor_mend.cpp). Sets of local ranks.
struct MendState {
  int asked = 0;                       // number of the last AskMend
  std::optional<std::uint64_t> epoch;  // of the last mend; unset while a request is open
  std::set<int> holders;               // live workers that have the job's state
  std::set<int> left;                  // live workers that survive no further mend
  std::set<int> missing;               // workers to be replaced
  std::set<int> replaced;              // workers that this mend replaces or has replaced
  std::set<int> unready;               // workers that do not work in the mend's epoch yet
  std::set<int> heard;                 // workers whose library has confirmed the news of a loss
  std::set<int> arrived;               // workers that wait until all have the job's state
  TimePoint began{};                   // of the mend: when its last failure was detected
  TimePoint heard_by{};                // when a survivor that has not confirmed it is killed
  bool looked = false;                 // heard_by has passed
  Duration longest_pause{};            // between two steps of a worker, or until all were ready
  bool suspended = false;              // Ctrl-Z has stopped the workers
  bool last = false;                   // there is no restart for another failure

  // How long the workers may take to resume.
  [[nodiscard]] Duration timeout() const {
    return std::clamp(kMendPauses * longest_pause, kMendTimeoutMin, kMendTimeoutMax);
  }

  // When to look at the mend next.
  [[nodiscard]] TimePoint deadline() const { return looked ? began + timeout() : heard_by; }

  // The workers that the others wait for.
  [[nodiscard]] std::set<int> late() const {
    std::set<int> out;
    std::ranges::set_difference(unready, arrived, std::inserter(out, out.end()));
    return out;
  }

  // The mend is complete, or all workers restart.
  void end() {
    epoch.reset();
    missing.clear();
    replaced.clear();
    unready.clear();
    heard.clear();
  }
};

}  // namespace muster
