// SPDX-License-Identifier: Apache-2.0
// Sweeper: ends the processes that workers leave behind: SIGTERM once, or SIGKILL until none is
// left. Children cannot be mistaken for others: they keep their pid until we reap them, and every
// orphan becomes our child because we are a subreaper. Used by the guard (blocking) and by
// LinuxRunner (after each SIGCHLD). Single-threaded; resource without descriptors.
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

  // SIGKILL to all descendants but the spared. Call it again whenever children were reaped: orphans
  // of killed processes have become our children by then.
  void kill_all();

  // SIGKILL to these process groups: to their leaders, and to the members that do not ignore
  // SIGTERM. Helpers like Python's resource tracker ignore it; they clean up and exit by themselves
  // once the processes that they serve are gone. Call it again as kill_all.
  void kill_groups(const std::set<pid_t>& groups);

  // SIGTERM, and SIGCONT for stopped processes, to all descendants but the spared, once: what a
  // handler starts to finish its work gets none. Returns those that do not ignore it.
  std::vector<Leftover> ask_all();

  // Processes that were killed since the last call.
  [[nodiscard]] std::vector<Leftover> take_killed();

  void reaped(pid_t pid) {
    killed_.erase(pid);
    spared_.erase(pid);
  }

  [[nodiscard]] bool is_spared(pid_t pid) const { return spared_.contains(pid); }

  // The subtree of this child is left alone from now on.
  void spare(pid_t pid) { spared_.insert(pid); }

  // All descendants that run, without the spared.
  [[nodiscard]] std::vector<Leftover> leftovers() const;

  // Whether all descendants but the spared ignore SIGTERM: more time after it changes nothing.
  [[nodiscard]] bool only_deaf_left() const;

  // Whether a child that is not spared may be left.
  [[nodiscard]] bool any_left() const;

 private:
  struct Target;
  using Visit = std::function<void(const Target&)>;

  void walk(pid_t parent, const Visit& visit) const;
  [[nodiscard]] bool all_are_deaf() const;
  void kill(const Target& target);

  std::set<pid_t> spared_;
  std::set<pid_t> killed_;  // not reaped yet
  std::vector<Leftover> killed_leftovers_;
};

// "2 processes that workers left running: 4711 (rsync, rank 0), 4712 (bash)". Long lists are cut.
// Without fmt: the guard uses it as well. Pure.
[[nodiscard]] std::string describe_leftovers(const std::vector<Leftover>& processes);

struct SweepResult {
  bool none_left = false;           // the kernel says that we have no child but the spared
  std::vector<Survivor> survivors;  // what is known of those that are left
};

// Sweeps and reaps until nothing is left but the spared, or until the timeout. Blocks; SIGCHLD must
// be blocked.
[[nodiscard]] SweepResult kill_descendants_until_none(const std::set<pid_t>& spared,
                                                      Duration timeout);

// As kill_descendants_until_none, but first lets processes exit by themselves for a moment, then
// sends SIGTERM and waits for up to `grace`.
class PatientSweep {
 public:
  // Blocks until a child of ours may have ended or `until`; false: there is no time to lose.
  using Wait = std::function<bool(TimePoint until)>;

  PatientSweep(const std::set<pid_t>& spared, Duration grace, Wait wait)
      : sweeper_(spared), grace_(grace), wait_(std::move(wait)), has_spared_(!spared.empty()) {}

  [[nodiscard]] SweepResult run(Duration kill_timeout);

  // The processes that were sent SIGTERM, and of all those that were killed.
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
