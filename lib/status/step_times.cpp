// SPDX-License-Identifier: Apache-2.0
#include "status/step_times.hpp"

#include <algorithm>

namespace muster {
namespace {

double seconds_between(TimePoint from, TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

// Seconds per step between two samples; empty if they are not two steps in order.
std::optional<double> seconds_per_step(const StepSample& from, const StepSample& to) {
  if (to.step <= from.step || to.when <= from.when) {
    return std::nullopt;
  }
  return seconds_between(from.when, to.when) / static_cast<double>(to.step - from.step);
}

// How many times longer than its last steps a step must take until it lowers the rate.
constexpr double kOverdue = 2;

}  // namespace

void StepTimes::observe(const Samples& samples) {
  workers_.resize(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Worker& worker = workers_[i];
    const bool restarted = samples[i] && worker.last && samples[i]->step < worker.last->step;
    if (restarted) {
      worker = {};
    }
    if (!worker.last) {
      worker.last = samples[i];
    }
  }
}

void StepTimes::append(std::optional<double> seconds) {
  seconds_.push_back(seconds);
  if (seconds_.size() > kStepIntervalsMax) {
    seconds_.pop_front();
  }
}

void StepTimes::end_interval(TimePoint now, const Samples& samples) {
  observe(samples);
  std::vector<double> found;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    Worker& worker = workers_[i];
    const auto seconds =
        samples[i] ? seconds_per_step(*worker.last, *samples[i]) : std::optional<double>();
    if (seconds) {
      found.push_back(*seconds);
      worker.before = worker.last;
      worker.last = samples[i];
    }
  }
  const std::int64_t passed = end_ == TimePoint{} ? 1 : (now - end_) / kStepInterval;
  const auto missed =
      std::clamp<std::int64_t>(passed - 1, 0, static_cast<std::int64_t>(kStepIntervalsMax));
  for (std::int64_t i = 0; i < missed; ++i) {
    append(std::nullopt);
  }
  end_ = now;
  std::ranges::sort(found);
  append(found.empty() ? std::nullopt : std::optional(found[found.size() / 2]));
}

std::vector<std::optional<double>> StepTimes::rates(TimePoint now, const Samples& samples) {
  observe(samples);
  std::vector<std::optional<double>> out(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Worker& worker = workers_[i];
    const auto& from = worker.before ? worker.before : worker.last;
    const auto seconds =
        samples[i] && from ? seconds_per_step(*from, *samples[i]) : std::optional<double>();
    if (seconds) {
      const double age = seconds_between(samples[i]->when, now);
      out[i] = 1 / (age > kOverdue * *seconds ? age : *seconds);
    }
  }
  return out;
}

}  // namespace muster
