// SPDX-License-Identifier: Apache-2.0
// C++17 wrapper for worker.h: reports to the launcher, and notifications about the job's
// membership. Outside muster, every function is a no-op. Thread-safe. Only Feed::next, preempted()
// after a notice and the first call wait for the launcher. A bool result is true if the report was
// sent.
#pragma once

#include "muster/worker.h"

#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace muster {
inline namespace v1 {
namespace worker {

// Reports this worker's step. Costs two stores to shared memory and one clock read.
inline void progress(std::uint64_t step) {
  muster_worker_progress(step);
}

// Reports a number, such as the loss, under a name of at most 24 letters, digits and characters
// _ . / -. Status shows the latest value. Costs a few accesses to shared memory. One thread at a
// time. False for an invalid name, after eight other names, or without a launcher.
inline bool number(const std::string& name, double number) {
  return muster_worker_number(name.c_str(), number) == 1;
}

// unhealthy() reports a problem as human-readable text; healthy() withdraws the report.
inline bool unhealthy(const std::string& why) {
  return muster_worker_unhealthy(why.c_str()) == 1;
}

inline bool healthy() {
  return muster_worker_healthy() == 1;
}

// Adds a JSON value to events.jsonl: at most 8 KiB per value and 256 KiB in total. Also returns
// false for invalid JSON.
inline bool event(const std::string& json) {
  return muster_worker_event(json.c_str()) == 1;
}

// Reports that this worker has started work in the current round.
inline bool ready() {
  return muster_worker_ready() == 1;
}

// The round number: the same on all ranks, and increasing. 0 outside muster.
[[nodiscard]] inline std::uint64_t epoch() {
  return muster_worker_epoch();
}

// Whether this worker was asked to stop.
[[nodiscard]] inline bool stopping() {
  return muster_worker_stopping() == 1;
}

// Exit code of a worker that has saved after a preemption notice.
inline constexpr int kRequeue = MUSTER_REQUEUE;

// True if this rank must save its state now and exit, because the job will be stopped. Call it in
// the same steps on all ranks, after progress(). All ranks get true from the same step on. If the
// program never calls progress(), all ranks must make the same number of calls. Without a notice,
// a call costs two loads from shared memory. One thread at a time. Always false in a forked child.
[[nodiscard]] inline bool preempted() {
  return muster_worker_preempted() == 1;
}

// Time until the workers are killed; empty if there is no notice. Another rank may learn of the
// notice a step later.
[[nodiscard]] inline std::optional<std::chrono::duration<double>> deadline() {
  const double seconds = muster_worker_deadline();
  if (std::isinf(seconds)) {
    return std::nullopt;
  }
  return std::chrono::duration<double>(seconds);
}

// Reports that this rank has saved its state as of this step.
inline bool saved(std::uint64_t step) {
  return muster_worker_saved(step) == 1;
}

enum class NewsKind : std::int32_t {
  none = MUSTER_NEWS_NONE,        // the wait timed out
  round = MUSTER_NEWS_ROUND,      // the members of a new round; always sent first
  gone = MUSTER_NEWS_GONE,        // `count` ranks starting at `rank` have exited
  stop = MUSTER_NEWS_STOP,        // this node's workers must stop; they are killed after `seconds`
  ended = MUSTER_NEWS_ENDED,      // no more news will follow
  preempt = MUSTER_NEWS_PREEMPT,  // the job will be stopped after `seconds`; see preempted()
};

struct News {
  NewsKind kind = NewsKind::none;
  int rank = 0;  // round: this worker's rank; gone: the first rank that exited
  int count = 0;
  int world_size = 0;
  std::uint64_t epoch = 0;
  double seconds = 0;
  std::uint64_t step = 0;  // preempt: 0 if no rank reports steps
};

// Membership changes of the job. One thread at a time.
class Feed {
 public:
  Feed() : feed_(muster_feed_open()) {}

  // Waits up to `timeout`; a negative timeout means no limit.
  [[nodiscard]] News next(std::chrono::milliseconds timeout) {
    if (!feed_) {
      return {NewsKind::ended};
    }
    muster_news news{};
    news.size = sizeof(news);
    const int kind = muster_feed_next(feed_.get(), static_cast<int>(timeout.count()), &news);
    return {static_cast<NewsKind>(kind),
            news.rank,
            news.count,
            news.world_size,
            news.epoch,
            news.seconds,
            news.step};
  }

 private:
  struct Close {
    void operator()(muster_feed* feed) const { muster_feed_close(feed); }
  };

  std::unique_ptr<muster_feed, Close> feed_;
};

}  // namespace worker
}  // namespace v1
}  // namespace muster
