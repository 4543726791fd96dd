// SPDX-License-Identifier: Apache-2.0
// SparePool: which spare workers exist (--spare-workers), which of them can replace a failed
// worker, and how many are missing. A spare worker is a process without a rank that has run the
// program up to elastic.run. Used by SpareKeeper and by the simulator. Pure; one thread.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace muster {

// Spare workers that may exit in a row before they are used. A program that needs its rank before
// elastic.run always exits.
inline constexpr int kSpareExitsMax = 3;

class SparePool {
 public:
  // What the exit of a process means.
  enum class Exit {
    unknown,   // the process is not a spare worker
    expected,  // it was stopped
    replace,   // start another one
    give_up,   // too many have exited: keep no spare workers any more
  };

  // From now on, this number of spare workers is kept.
  void keep(int count) { wanted_ = has_given_up_ ? 0 : count; }

  // The number of spare workers that are missing.
  [[nodiscard]] int missing() const {
    return wanted_ - static_cast<int>(std::ranges::count_if(
                         spares_, [](const auto& each) { return !each.second.is_stopped; }));
  }

  // The number of the next spare worker, from 1.
  [[nodiscard]] int next_number() { return ++last_number_; }

  void add(pid_t pid) { spares_.try_emplace(pid); }

  [[nodiscard]] bool contains(pid_t pid) const { return spares_.contains(pid); }

  // The spare worker has reached elastic.run.
  void note_ready(pid_t pid) {
    if (const auto found = spares_.find(pid); found != spares_.end()) {
      found->second.is_ready = true;
    }
  }

  // Removes and returns a spare worker that can replace a failed worker. None if no spare worker is
  // ready.
  [[nodiscard]] std::optional<pid_t> take() {
    const auto found = std::ranges::find_if(
        spares_, [](const auto& each) { return each.second.is_ready && !each.second.is_stopped; });
    if (found == spares_.end()) {
      return std::nullopt;
    }
    const pid_t pid = found->first;
    spares_.erase(found);
    exits_ = 0;
    return pid;
  }

  [[nodiscard]] Exit note_exit(pid_t pid) {
    const auto found = spares_.find(pid);
    if (found == spares_.end()) {
      return Exit::unknown;
    }
    const bool is_expected = found->second.is_stopped;
    spares_.erase(found);
    if (is_expected) {
      return Exit::expected;
    }
    return ++exits_ < kSpareExitsMax ? Exit::replace : give_up();
  }

  // Keeps no spare workers for the rest of the job. Those that exist can still be used.
  Exit give_up() {
    has_given_up_ = true;
    wanted_ = 0;
    return Exit::give_up;
  }

  // Keeps no spare workers until the next keep(). Returns those that must be killed.
  [[nodiscard]] std::vector<pid_t> stop() {
    wanted_ = 0;
    std::vector<pid_t> out;
    for (auto& [pid, spare] : spares_) {
      if (!std::exchange(spare.is_stopped, true)) {
        out.push_back(pid);
      }
    }
    return out;
  }

  [[nodiscard]] std::vector<pid_t> pids() const {
    std::vector<pid_t> out;
    for (const auto& [pid, spare] : spares_) {
      out.push_back(pid);
    }
    return out;
  }

 private:
  struct Spare {
    bool is_ready = false;
    bool is_stopped = false;
  };

  std::map<pid_t, Spare> spares_;  // that have not been reaped or used
  int wanted_ = 0;
  int last_number_ = 0;
  int exits_ = 0;  // in a row
  bool has_given_up_ = false;
};

}  // namespace muster
