// SPDX-License-Identifier: Apache-2.0
// HangCore: decides when to check the ranks of an attempt, when they have made no progress for too
// long, and what to do then. Progress is a step, an operation of the collective library, or a line
// of output. CPU time and I/O are only signs of life. Time is an argument, effects are data, and
// there is no I/O. Stepped by hang_watch; value-like.
#pragma once

#include "base/time.hpp"
#include "hang/on_hang.hpp"
#include "hang/verdict.hpp"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace muster::hang {

struct HangSettings {
  std::optional<Duration> limit{};  // unset for auto
  OnHang on_hang = OnHang::report;
  // True if muster sees all output of the program. In that case, with a limit, silence from the
  // start counts as no progress.
  bool sees_output = false;
};

// Bounds of the check interval: checks must be frequent enough for a short limit.
inline constexpr Duration kLookMax = std::chrono::seconds(1);
inline constexpr Duration kLookMin = std::chrono::milliseconds(100);

// With auto, the start limit applies until this many steps have been seen. Afterwards the limit is
// a multiple of the longest recent interval.
inline constexpr std::size_t kStepsFirst = 5;
inline constexpr std::size_t kIntervalsKept = 64;
inline constexpr int kIntervalFactor = 3;
inline constexpr Duration kAutoLimitMin = std::chrono::seconds(10);
inline constexpr Duration kStartLimit = std::chrono::minutes(30);

// Signs of life postpone a verdict to at most this many times the limit.
inline constexpr int kSlowFactor = 10;

// I/O per second that counts as a sign of life. Threads that only wake each other transfer just a
// few bytes.
inline constexpr std::uint64_t kLiveBytes = 64UL * 1024;
inline constexpr double kLiveCpu = 0.1;

// If a check is this late, the agent itself was not running.
inline constexpr Duration kOwnPause = std::chrono::seconds(2);

// If a request for a verdict on all nodes is not answered within this time, it is repeated.
inline constexpr Duration kVerdictMax = std::chrono::seconds(30);

// When to warn that the program has no visible source of progress. The program may be importing
// modules at first, so the warning is delayed unless there is no sign of life for the whole limit.
// With auto, the program may compile for minutes before its first step.
inline constexpr Duration kBlindAfter = std::chrono::seconds(60);
inline constexpr Duration kBlindAfterAuto = std::chrono::minutes(10);

// What one check has observed about a rank. A field is unset if the rank has no such source.
struct Sample {
  int rank = 0;
  std::optional<std::uint64_t> steps{};
  std::optional<std::uint64_t> operations{};
  std::optional<std::uint64_t> output{};
  // Totals of the rank's processes since their start. Unset if not requested.
  std::optional<std::uint64_t> io_bytes{};
  double cpu_seconds = 0;
  bool answers = false;   // the rank is answering our query, so this interval does not count
  bool debugged = false;  // a debugger is attached to the rank, so the job's timeouts pause
  bool operator==(const Sample&) const = default;
};

// Inspect everything and call judged(). In a multi-node job, query all nodes and call told().
struct Inspect {};

// A valid verdict: print it and take the configured action.
struct Announce {
  Duration quiet{};
  Duration limit{};
  OnHang action = OnHang::report;
};

struct GoesOn {
  Duration quiet{};  // the time without progress
};

// The program has no visible source of progress.
struct SayBlind {};

using HangEffect = std::variant<Inspect, GoesOn, SayBlind>;

class HangCore {
 public:
  explicit HangCore(HangSettings settings) : settings_(settings) {}

  // The workers of an attempt have started.
  void begin(TimePoint now, const std::vector<int>& ranks);
  // The workers are being stopped, or have exited.
  void end();

  void rank_ended(int rank) { ranks_.erase(rank); }

  [[nodiscard]] bool is_watching() const { return !ranks_.empty(); }

  // When to check next. Unset if no check is due before the next begin().
  [[nodiscard]] std::optional<TimePoint> next_look() const { return next_look_; }

  // True if it is worth checking for signs of life, that is, if there was no recent progress.
  [[nodiscard]] bool wants_life(TimePoint now) const;

  void looked(TimePoint now, const std::vector<Sample>& samples, std::vector<HangEffect>& out);
  // The rank was seen waiting for other ranks in an operation, so its activity there is not a sign
  // of life.
  void waits(int rank);
  // None if the verdict is not valid: the job made progress, or the blamed ranks show signs of
  // life.
  [[nodiscard]] std::optional<Announce> judged(TimePoint now, const Verdict& verdict);
  // Multi-node: the verdict on all nodes. If unset, there is no valid verdict; check again later.
  void told(TimePoint now, const std::optional<Verdict>& verdict);

  // The current limit.
  [[nodiscard]] Duration limit() const;
  // The time since this rank's last progress.
  [[nodiscard]] Duration quiet(int rank, TimePoint now) const;
  // The time since the rank's last sign of life.
  [[nodiscard]] Duration lifeless(int rank, TimePoint now) const;

  // The time since any rank made progress.
  [[nodiscard]] Duration quiet(TimePoint now) const { return now - progressed_; }

  // True if the rank has completed a step or an operation.
  [[nodiscard]] bool is_strong(int rank) const;

 private:
  struct Rank {
    Sample last{};
    bool seen = false;
    bool strong = false;     // the rank has completed a step or an operation
    TimePoint progressed{};  // time of the rank's last progress
    TimePoint lived{};       // time of the rank's last sign of life
    bool waits = false;      // the rank was seen waiting for other ranks since `progressed`
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
  void forgive(Duration pause);

  HangSettings settings_;
  std::map<int, Rank> ranks_;
  TimePoint began_{};
  TimePoint looked_at_{};
  std::optional<TimePoint> next_look_{};
  // The last progress of any rank. Output counts only if no rank has another source.
  TimePoint progressed_{};
  std::deque<Duration> intervals_;  // times between the steps of the first rank
  std::uint64_t steps_seen_ = 0;    // steps of the first rank seen so far
  TimePoint last_step_{};
  bool strong_ = false;      // a step or an operation was seen
  bool any_source_ = false;  // a rank has a counter, or has printed a visible line
  bool said_blind_ = false;
  bool debugged_ = false;  // at the last check
  bool judging_ = false;
  TimePoint judging_since_{};
  std::optional<TimePoint> judge_after_{};  // no verdict before this time, because of signs of life
  std::optional<Verdict> announced_{};
  std::optional<TimePoint> told_at_{};  // set if told() was called before our own limit had passed
};

}  // namespace muster::hang
