// SPDX-License-Identifier: Apache-2.0
// Sweeper: stops the processes that workers leave running, with SIGTERM once, or with SIGKILL until
// none remains. Our children keep their pids until we reap them, so they cannot be confused with
// other processes. Every orphan becomes our child because we are a subreaper. Used by the guard
// (blocking) and by LinuxRunner (after each SIGCHLD). Single-threaded. Holds no descriptors.
#pragma once

#include "base/time.hpp"
#include "process/values/process_runner.hpp"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace muster {

class Sweeper {
 public:
  explicit Sweeper(std::set<pid_t> spared = {}) : spared_(std::move(spared)) {}

  // Sends SIGKILL to all descendants except the spared ones. Call again whenever children were
  // reaped, because orphans of killed processes are our children by then.
  void kill_all();

  // Sends SIGKILL to the leaders of these process groups and to the members that do not ignore
  // SIGTERM. Helpers such as Python's resource tracker ignore SIGTERM. They clean up and exit on
  // their own once the processes that they serve have exited. As with kill_all, call again whenever
  // children were reaped.
  void kill_groups(const std::set<pid_t>& groups);

  // Sends SIGKILL to the orphans that inherited RANK=`rank`, and to those of their descendants that
  // do too, if they do not ignore SIGTERM. They left the group of a dead worker. `workers`: our
  // children that still run, whose descendants are spared.
  void kill_strays(int rank, const std::vector<pid_t>& workers);

  // Sends SIGTERM and SIGCONT once to all descendants except the spared ones. Processes that a
  // SIGTERM handler starts later, to finish its work, do not get the signal. Returns the processes
  // that do not ignore SIGTERM.
  std::vector<Leftover> ask_all();

  // Processes killed since the last call.
  [[nodiscard]] std::vector<Leftover> take_killed();

  void reaped(pid_t pid) {
    killed_.erase(pid);
    spared_.erase(pid);
  }

  [[nodiscard]] bool is_spared(pid_t pid) const { return spared_.contains(pid); }

  [[nodiscard]] bool spares_any() const { return !spared_.empty(); }

  // From now on, spares this child and its descendants.
  void spare(pid_t pid) { spared_.insert(pid); }

  void end_sparing(pid_t pid) { spared_.erase(pid); }

  // All running descendants except the spared ones.
  [[nodiscard]] std::vector<Leftover> leftovers() const;

  // Inspects all descendants except the spared ones. If they all ignore SIGTERM, a longer wait
  // would not help.
  [[nodiscard]] LeftoversSeen look() const;

  // True if a child that is not spared may remain.
  [[nodiscard]] bool any_left() const;

 private:
  struct Target;
  using Visit = std::function<void(const Target&)>;

  void walk(pid_t parent, const Visit& visit) const;
  [[nodiscard]] LeftoversSeen look_once() const;
  void kill(const Target& target);

  std::set<pid_t> spared_;
  std::set<pid_t> killed_;  // killed but not yet reaped
  std::vector<Leftover> killed_leftovers_;
};

// "2 processes that workers left running: 4711 (rsync, rank 0), 4712 (bash)". Long lists are
// shortened. Does not use fmt, because the guard uses it as well. Pure.
[[nodiscard]] std::string describe_leftovers(const std::vector<Leftover>& processes);

struct SweepResult {
  bool none_left = false;           // no children except the spared ones
  std::vector<Survivor> survivors;  // the remaining processes
};

// Kills and reaps until only spared processes remain, or until the timeout. Blocks; SIGCHLD must be
// blocked.
[[nodiscard]] SweepResult kill_descendants_until_none(const std::set<pid_t>& spared,
                                                      Duration timeout);

// Like kill_descendants_until_none, but first gives processes a moment to exit on their own, then
// sends SIGTERM and waits up to `grace`.
class PatientSweep {
 public:
  // Blocks until a child may have exited or until `until`. If it returns false, the sweep stops
  // waiting.
  using Wait = std::function<bool(TimePoint until)>;

  PatientSweep(const std::set<pid_t>& spared, Duration grace, Wait wait)
      : sweeper_(spared), grace_(grace), wait_(std::move(wait)), has_spared_(!spared.empty()) {}

  [[nodiscard]] SweepResult run(Duration kill_timeout);

  // The processes that were sent SIGTERM, and all killed processes.
  [[nodiscard]] const std::vector<Leftover>& asked() const { return asked_; }

  [[nodiscard]] const std::vector<Leftover>& killed() const { return killed_; }

 private:
  enum class End { none_left, time_over, hurry };

  [[nodiscard]] bool any_left();
  [[nodiscard]] End await_none(TimePoint until);
  [[nodiscard]] End await_asked();

  Sweeper sweeper_;
  Duration grace_;
  Wait wait_;
  bool has_spared_;
  std::vector<Leftover> asked_;
  std::vector<Leftover> killed_;
};

}  // namespace muster
