// SPDX-License-Identifier: Apache-2.0
// HangCore: decides when to check the ranks of an attempt, when they have made no progress for too
// long, and what follows. Progress is a step, an operation of the collective library, or a line of
// output; CPU time and I/O are only signs of life. Time is an argument, effects are data, no I/O.
// Stepped by hang_watch; value-like.
#pragma once

#include "base/time.hpp"
#include "hang/verdict.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster::hang {

enum class OnHang { report, restart, stop };

struct HangSettings {
  std::optional<Duration> limit{};  // none: auto
  OnHang on_hang = OnHang::report;
  // All output of the program is visible, so with a limit silence from the start is no progress.
  bool sees_output = false;
};

// Bounds of the check interval: often enough to notice that a short limit passes.
inline constexpr Duration kLookMax = std::chrono::seconds(1);
inline constexpr Duration kLookMin = std::chrono::milliseconds(100);

// auto: the start limit until this many steps have been seen; then a multiple of the longest of the
// latest intervals.
inline constexpr std::size_t kStepsFirst = 5;
inline constexpr std::size_t kIntervalsKept = 64;
inline constexpr int kIntervalFactor = 3;
inline constexpr Duration kAutoLimitMin = std::chrono::seconds(10);
inline constexpr Duration kStartLimit = std::chrono::minutes(30);

// Signs of life postpone a verdict for up to this many limits.
inline constexpr int kSlowFactor = 10;

// I/O per second that is a sign of life, unlike the few bytes with which a thread wakes another.
inline constexpr std::uint64_t kLiveBytes = 64UL * 1024;
inline constexpr double kLiveCpu = 0.1;

// If a check is late by this much, the agent itself was not running.
inline constexpr Duration kOwnPause = std::chrono::seconds(2);

// If a request for a verdict on all nodes is unanswered for this long, ask again.
inline constexpr Duration kVerdictMax = std::chrono::seconds(30);

// When to warn that no source of progress is seen: not while the program may be importing modules,
// unless it shows no sign of life for its limit. With auto it may compile for minutes before its
// first step.
inline constexpr Duration kBlindAfter = std::chrono::seconds(60);
inline constexpr Duration kBlindAfterAuto = std::chrono::minutes(10);

// What one check sees of a rank. A missing source is none.
struct Sample {
  int rank = 0;
  std::optional<std::uint64_t> steps{};
  std::optional<std::uint64_t> operations{};
  std::optional<std::uint64_t> output{};
  // Totals of its processes since their start; none if not requested.
  std::optional<std::uint64_t> io_bytes{};
  double cpu_seconds = 0;
  bool answers = false;  // it works on our query, which pauses its time without a sign of life
  bool operator==(const Sample&) const = default;
};

// Inspect everything and call judged(); in a job of many nodes, ask all nodes and call told().
struct Inspect {};

// The verdict counts: show it and take the configured action.
struct Announce {
  Verdict verdict{};
  Duration quiet{};
  Duration limit{};
  OnHang action = OnHang::report;
};

struct GoesOn {
  Duration quiet{};  // the time without progress
};

// No source of progress is seen in this program.
struct SayBlind {};

using HangEffect = std::variant<Inspect, Announce, GoesOn, SayBlind>;

class HangCore {
 public:
  explicit HangCore(HangSettings settings) : settings_(settings) {}

  // The workers of an attempt have started.
  void begin(TimePoint now, const std::vector<int>& ranks);
  // The workers are being stopped, or have exited.
  void end();

  void rank_ended(int rank) { ranks_.erase(rank); }

  [[nodiscard]] bool is_watching() const { return !ranks_.empty(); }

  // When to check again; none: not before the next begin().
  [[nodiscard]] std::optional<TimePoint> next_look() const { return next_look_; }

  // Whether signs of life are worth their cost: not while there is progress.
  [[nodiscard]] bool wants_life(TimePoint now) const;

  void looked(TimePoint now, const std::vector<Sample>& samples, std::vector<HangEffect>& out);
  // It was seen in an operation with other ranks, so its activity there is no sign of life.
  void waits(int rank);
  void judged(TimePoint now, const Verdict& verdict, std::vector<HangEffect>& out);
  // Many nodes: the verdict on all of them; none: it does not count, check again later.
  void told(TimePoint now, const std::optional<Verdict>& verdict);

  // The current limit.
  [[nodiscard]] Duration limit() const;
  // Since this rank's last progress.
  [[nodiscard]] Duration quiet(int rank, TimePoint now) const;
  // Since its last sign of life.
  [[nodiscard]] Duration lifeless(int rank, TimePoint now) const;

  // Since the last progress of any rank.
  [[nodiscard]] Duration quiet(TimePoint now) const { return now - progressed_; }

  // It has made a step or an operation.
  [[nodiscard]] bool is_strong(int rank) const;

 private:
  struct Rank {
    Sample last{};
    bool seen = false;
    bool strong = false;     // has made a step or an operation
    TimePoint progressed{};  // time of the last one
    TimePoint lived{};       // time of the last sign of life
    bool waits = false;      // in an operation with other ranks, since its last progress
  };

  void note(TimePoint now, const Sample& sample, Rank& rank);
  void note_interval(TimePoint now, const Sample& before, const Sample& sample);
  void note_life(TimePoint now, const Sample& sample, Rank& rank) const;
  [[nodiscard]] TimePoint progressed(const Rank& rank) const;
  [[nodiscard]] bool is_slow(int rank, TimePoint now) const;
  [[nodiscard]] Duration longest_quiet(TimePoint now) const;
  [[nodiscard]] bool has_source() const;
  [[nodiscard]] bool is_blind(TimePoint now) const;
  void look_again(TimePoint now);
  void forgive_own_pause(TimePoint now);

  HangSettings settings_;
  std::map<int, Rank> ranks_;
  TimePoint began_{};
  TimePoint looked_at_{};
  std::optional<TimePoint> next_look_{};
  TimePoint progressed_{};          // of any rank; output lines count only without other sources
  std::deque<Duration> intervals_;  // between steps of the first rank
  std::uint64_t steps_seen_ = 0;    // of the first rank
  TimePoint last_step_{};
  bool strong_ = false;      // a step or an operation was seen
  bool any_source_ = false;  // a rank has a counter, or has printed a visible line
  bool said_blind_ = false;
  bool judging_ = false;
  TimePoint judging_since_{};
  std::optional<TimePoint> judge_after_{};  // postponed by signs of life
  std::optional<Verdict> announced_{};
  std::optional<TimePoint> told_at_{};  // told() by other nodes before the limit had passed here
};

}  // namespace muster::hang
