// SPDX-License-Identifier: Apache-2.0
// TimeAccount: attributes every microsecond of one run of a job to exactly one use, so the uses add
// up to the run's time. Used by fold_account. Pure: time is an argument. Value.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace muster {

using Micros = std::int64_t;  // since the epoch, or a duration

inline constexpr double kMicrosPerSecond = 1e6;

enum class TimeUse {
  running,   // the workers run; their work was kept
  lost,      // the workers ran, but their work since the last save was thrown away
  starting,  // from the start of a round's workers to their first step
  forming,   // the nodes agree on a round
  mending,   // --restart=rank: a failed rank is replaced
  stopping,  // the workers of a round exit
  waiting,   // for missing nodes, for --restart-delay, or in the scheduler's queue
};
inline constexpr std::array<std::string_view, 7> kTimeUses{
    "running", "lost", "starting", "forming", "mending", "stopping", "waiting"};

struct TimeSpent {
  std::array<Micros, kTimeUses.size()> uses{};
  Micros total = 0;  // the sum of `uses`
  // False if work was thrown away, but the program never reported a save. `lost` is then part of
  // `running`.
  bool is_lost_known = true;

  [[nodiscard]] Micros of(TimeUse use) const { return uses.at(static_cast<std::size_t>(use)); }

  // The fraction of the time in which the workers did work that was kept. An upper bound if
  // `is_lost_known` is false.
  [[nodiscard]] double goodput() const;

  void add(TimeUse use, Micros amount);
  void add(const TimeSpent& other);
  bool operator==(const TimeSpent&) const = default;
};

class TimeAccount {
 public:
  // The time from the last call to `now` belongs to the current use. The first call begins the
  // account. A clock that was set back stops the account until it has caught up.
  void advance(Micros now);

  // Sets the use of the time after the last advance(). Never `lost`.
  void enter(TimeUse use) { use_ = use; }

  // Moves at most this much time from one use to another, once the use is known.
  void reassign(TimeUse from, TimeUse to, Micros at_most);

  // The program has saved its state.
  void save();

  // The work since the last save was thrown away.
  void discard();

  // The work of the last `at_most` microseconds was thrown away. The program did not have to
  // report this.
  void roll_back(Micros at_most);

  [[nodiscard]] TimeUse use() const { return use_; }

  [[nodiscard]] Micros begun() const { return begun_; }

  [[nodiscard]] Micros now() const { return now_; }

  // The running time so far, including lost time.
  [[nodiscard]] Micros running() const { return all_.of(TimeUse::running); }

  [[nodiscard]] TimeSpent spent() const;

  bool operator==(const TimeAccount&) const = default;

 private:
  TimeSpent all_;     // `running` includes all lost time
  Micros begun_ = 0;  // 0 before the first call
  Micros now_ = 0;
  TimeUse use_ = TimeUse::forming;
  Micros unsaved_ = 0;      // running time that no save covers yet
  Micros discarded_ = 0;    // lost if the program reports saves
  Micros rolled_back_ = 0;  // lost in any case
  bool has_saved_ = false;
};

}  // namespace muster
