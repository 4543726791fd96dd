// SPDX-License-Identifier: Apache-2.0
// HangCore: decides when the ranks of an attempt are looked at, when they have made no progress for
// too long, and what follows. Progress is a step, an operation of the collective library, a line of
// output; CPU time and I/O are signs of life only. Time is an argument, effects are data, no I/O.
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
  // All output of the program is seen: with a limit, silence since the start is no progress.
  bool sees_output = false;
};

// Looked at so often at most, and often enough to see a short limit pass.
inline constexpr Duration kLookMax = std::chrono::seconds(1);
inline constexpr Duration kLookMin = std::chrono::milliseconds(100);

// auto: before so many steps have been seen, the limit of the start; then a multiple of the longest
// interval between the last ones.
inline constexpr std::size_t kStepsFirst = 5;
inline constexpr std::size_t kIntervalsKept = 64;
inline constexpr int kIntervalFactor = 3;
inline constexpr Duration kAutoLimitMin = std::chrono::seconds(10);
inline constexpr Duration kStartLimit = std::chrono::minutes(30);

// Signs of life put a verdict off until so many limits are over.
inline constexpr int kSlowFactor = 10;

// I/O of a second that is a sign of life: not the few bytes with which a thread wakes another one.
inline constexpr std::uint64_t kLiveBytes = 64UL * 1024;
inline constexpr double kLiveCpu = 0.1;

// Where so much more time has passed between two looks than was meant to, we did not run ourselves.
inline constexpr Duration kOwnPause = std::chrono::seconds(2);

// Who asked for a verdict on all nodes and hears nothing for so long asks again.
inline constexpr Duration kVerdictMax = std::chrono::seconds(30);

// When the user learns that nothing is seen of the program: not while it may be importing modules.
// A program that shows no sign of life for its limit is not. With auto it may be compiling for
// minutes before its first step.
inline constexpr Duration kBlindAfter = std::chrono::seconds(60);
inline constexpr Duration kBlindAfterAuto = std::chrono::minutes(10);

// What one look sees of a rank. A source that it does not have is none.
struct Sample {
  int rank = 0;
  std::optional<std::uint64_t> steps{};
  std::optional<std::uint64_t> operations{};
  std::optional<std::uint64_t> output{};
  // Of its processes together, since their start; none where nobody asked.
  std::optional<std::uint64_t> io_bytes{};
  double cpu_seconds = 0;
  bool answers = false;  // it works on what we asked it: its time since the last sign of life stops
  bool operator==(const Sample&) const = default;
};

// Look at everything, and answer with judged(); or, in a job of many nodes, ask them, and answer
// with told().
struct Inspect {};

// The verdict counts: show it, and do what was asked for.
struct Announce {
  Verdict verdict{};
  Duration quiet{};
  Duration limit{};
  OnHang action = OnHang::report;
};

struct GoesOn {
  Duration quiet{};  // so long nothing had happened
};

// Nothing is seen of this program.
struct SayBlind {};

using HangEffect = std::variant<Inspect, Announce, GoesOn, SayBlind>;

class HangCore {
 public:
  explicit HangCore(HangSettings settings) : settings_(settings) {}

  // The workers of an attempt were started.
  void begin(TimePoint now, const std::vector<int>& ranks);
  // They are being stopped, or have ended.
  void end();

  void rank_ended(int rank) { ranks_.erase(rank); }

  [[nodiscard]] bool is_watching() const { return !ranks_.empty(); }

  // When to look again; none: not before the next begin().
  [[nodiscard]] std::optional<TimePoint> next_look() const { return next_look_; }

  // Whether signs of life are worth their cost: not while there is progress.
  [[nodiscard]] bool wants_life(TimePoint now) const;

  void looked(TimePoint now, const std::vector<Sample>& samples, std::vector<HangEffect>& out);
  // It was seen in an operation with other ranks: what it does meanwhile is no sign of life.
  void waits(int rank);
  void judged(TimePoint now, const Verdict& verdict, std::vector<HangEffect>& out);
  // Many nodes: the verdict on all of them; none: it does not count, look again later.
  void told(TimePoint now, const std::optional<Verdict>& verdict);

  // The limit that holds now.
  [[nodiscard]] Duration limit() const;
  // Since this rank's last progress.
  [[nodiscard]] Duration quiet(int rank, TimePoint now) const;
  // Since its last sign of life.
  [[nodiscard]] Duration lifeless(int rank, TimePoint now) const;

  // Since the last progress of any.
  [[nodiscard]] Duration quiet(TimePoint now) const { return now - progressed_; }

  // It has made a step or an operation.
  [[nodiscard]] bool is_strong(int rank) const;

 private:
  struct Rank {
    Sample last{};
    bool seen = false;
    bool strong = false;     // has made a step or an operation
    TimePoint progressed{};  // the last one of these
    TimePoint lived{};       // a sign of life
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
  TimePoint progressed_{};          // of any rank; of lines of output where there is nothing else
  std::deque<Duration> intervals_;  // between steps of the first rank
  std::uint64_t steps_seen_ = 0;    // of it
  TimePoint last_step_{};
  bool strong_ = false;      // a step or an operation was seen
  bool any_source_ = false;  // some rank counts something, or has printed a line where we see it
  bool said_blind_ = false;
  bool judging_ = false;
  TimePoint judging_since_{};
  std::optional<TimePoint> judge_after_{};  // signs of life: not before
  std::optional<Verdict> announced_{};
  std::optional<TimePoint> told_at_{};  // by the others, before the limit had passed here
};

}  // namespace muster::hang
