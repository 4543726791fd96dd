// SPDX-License-Identifier: Apache-2.0
// SimulatedJob: ranks that compute for a while and then meet in an operation, step after step, with
// the waits that flight recorders would show. Compute times and disturbances by the machine are
// random.
#pragma once

#include "collective/recorder/flight_recorder.hpp"
#include "straggler/straggler_core.hpp"
#include "support/seed.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace muster::straggler {

struct JobShape {
  int ranks = 4;
  double step = 0.1;         // seconds of compute time per step
  int operations = 1;        // operations per step
  double exchange = 0.01;    // an operation's own share of its part of the step
  double noise = 0;          // standard deviation of the work per step
  double drift = 0;          // standard deviation of a lasting disturbance
  double drift_lasts = 0.1;  // duration of a disturbance
  bool tells_steps = false;
  bool keeps_calls = false;        // keep the calls that logs() returns
  std::vector<double> extra = {};  // by rank: additional work, as a fraction of the others'
};

inline constexpr std::size_t kRecordsKept = 512;

class SimulatedJob {
 public:
  SimulatedJob(const JobShape& shape, std::uint64_t seed)
      : shape_(shape), dice_(seed), ranks_(static_cast<std::size_t>(shape.ranks)) {
    shape_.extra.resize(ranks_.size());
    for (Rank& rank : ranks_) {
      rank.drift = normal();
    }
  }

  [[nodiscard]] double now() const { return now_; }

  // The average work per operation.
  [[nodiscard]] double operation() const { return shape_.step / shape_.operations; }

  [[nodiscard]] std::uint64_t steps() const { return steps_; }

  void slow_down(std::size_t rank, double extra) { shape_.extra.at(rank) = extra; }

  // Runs until the next operation has completed.
  void operate() {
    const double part = shape_.step / shape_.operations;
    double last = 0;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].work = part * (1 + shape_.extra[i]) * disturbance(ranks_[i]);
      last = std::max(last, ranks_[i].work);
    }
    const double exchange = part * shape_.exchange;
    for (std::size_t i = 0; i < ranks_.size() && shape_.keeps_calls; ++i) {
      note(i, now_ + ranks_[i].work);
    }
    for (Rank& rank : ranks_) {
      ++rank.waits.operations;
      ++rank.waits.waits;
      rank.waits.waited += of_seconds(last - rank.work + exchange);
    }
    before_ = now_;
    now_ += last + exchange;
    lasted_ = last + exchange;
    if (++operations_ % static_cast<std::uint64_t>(shape_.operations) == 0) {
      ++steps_;
    }
  }

  [[nodiscard]] std::vector<RankWaits> look() const {
    std::vector<RankWaits> out;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      RankWaits one{.rank = static_cast<int>(i)};
      one.step = shape_.tells_steps ? std::optional(steps_) : std::nullopt;
      one.groups.push_back(ranks_[i].waits);
      out.push_back(std::move(one));
    }
    return out;
  }

  // Like flight recorders of processes whose pids equal their ranks.
  [[nodiscard]] std::vector<collective::FlightLog> logs() const {
    std::vector<collective::FlightLog> out;
    for (const Rank& rank : ranks_) {
      collective::FlightLog log;
      log.pid = static_cast<int>(out.size());
      log.records.assign(rank.records.begin(), rank.records.end());
      out.push_back(std::move(log));
    }
    return out;
  }

  static Duration of_seconds(double seconds) {
    return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
  }

  // 0 to 1.
  double part() { return static_cast<double>(dice_.below(1U << 30U)) / (1U << 30U); }

 private:
  struct Rank {
    GroupWaits waits{.group = "world"};
    double work = 0;
    double drift = 0;  // mean-reverting with time constant drift_lasts
    std::deque<collective::FlightRecord> records;
  };

  void note(std::size_t rank, double called) {
    collective::FlightRecord record;
    record.request.kind = collective::Kind::all_reduce;
    record.request.seq = operations_;
    record.queued_ns = static_cast<std::uint64_t>(of_seconds(called).count());
    record.completed_ns = record.queued_ns + 1;
    ranks_[rank].records.push_back(record);
    if (ranks_[rank].records.size() > kRecordsKept) {
      ranks_[rank].records.pop_front();
    }
  }

  double normal() {
    constexpr double kTwoPi = 6.283185307179586;
    return std::sqrt(-2 * std::log(1 - part())) * std::cos(kTwoPi * part());
  }

  // The factor for an operation's work: 1 on average, never negative.
  double disturbance(Rank& rank) {
    const double kept = std::exp(-lasted_ / shape_.drift_lasts);
    rank.drift = kept * rank.drift + std::sqrt(1 - kept * kept) * normal();
    const double noise = shape_.noise * std::sqrt(shape_.operations);
    return log_normal(noise, normal()) * log_normal(shape_.drift, rank.drift);
  }

  static double log_normal(double deviation, double value) {
    return std::exp(deviation * value - deviation * deviation / 2);
  }

  JobShape shape_;
  testing::Dice dice_;
  std::vector<Rank> ranks_;
  double now_ = 0;
  double before_ = 0;
  double lasted_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t steps_ = 0;
};

inline double seconds(Duration time) {
  return std::chrono::duration<double>(time).count();
}

struct Seen {
  std::vector<StragglerEffect> effects;
  double at = 0;            // time of the first effect
  std::uint64_t steps = 0;  // number of steps by then
};

// An agent that polls as often as the core requests, or a little later, until it reports something
// or `end` has passed.
inline Seen watch(SimulatedJob& job, StragglerCore& core, double end) {
  Seen out;
  double look = job.now() + 0.1;
  while (job.now() < end && out.effects.empty()) {
    job.operate();
    if (job.now() < look) {
      continue;
    }
    const double moment = job.now() + 0.8 * job.part() * job.operation();  // in the middle of one
    core.looked(TimePoint(SimulatedJob::of_seconds(moment)), job.look(), out.effects);
    look = job.now() +
           seconds(core.look_after(SimulatedJob::of_seconds(job.now()))) * (1 + 0.1 * job.part());
    out.at = job.now();
    out.steps = job.steps();
  }
  return out;
}

}  // namespace muster::straggler
