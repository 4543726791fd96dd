// SPDX-License-Identifier: Apache-2.0
// StepTimes: computes from the steps that workers report how fast each worker is, and how long a
// step took during the last hour. Used by StatsWatch. Pure: the caller passes the time.
#pragma once

#include "base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace muster {

// The duration of one interval of the chart, and the number of intervals: one hour.
inline constexpr Duration kStepInterval = std::chrono::seconds(10);
inline constexpr std::size_t kStepIntervalsMax = 360;

// A step and the time at which the worker reported it.
struct StepSample {
  std::uint64_t step = 0;
  TimePoint when{};
};

class StepTimes {
 public:
  using Samples = std::vector<std::optional<StepSample>>;  // by local rank

  // Call when the workers of a round start. Their steps may begin again. The chart remains.
  void begin_round() { workers_.clear(); }

  // Call at the end of each interval. Intervals without a call are empty.
  void end_interval(TimePoint now, const Samples& samples);

  // Steps per second of each worker, over the last 10 to 20 seconds. Decreases while a worker takes
  // much longer for its current step. Empty until it has completed two steps.
  [[nodiscard]] std::vector<std::optional<double>> rates(TimePoint now, const Samples& samples);

  // The median over the workers of the seconds per step in each interval, oldest first.
  [[nodiscard]] const std::deque<std::optional<double>>& seconds() const { return seconds_; }

  // The end of the last interval.
  [[nodiscard]] TimePoint end() const { return end_; }

 private:
  // Two samples of different steps. They change at the end of an interval.
  struct Worker {
    std::optional<StepSample> before;
    std::optional<StepSample> last;
  };

  void observe(const Samples& samples);
  void append(std::optional<double> seconds);

  std::vector<Worker> workers_;
  std::deque<std::optional<double>> seconds_;
  TimePoint end_{};
};

}  // namespace muster
