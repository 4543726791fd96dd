// SPDX-License-Identifier: Apache-2.0
// Messages from a worker to its launcher, and news of the job. Outside of muster every function
// does nothing. Thread-safe. Only Feed::next and the first call wait for the launcher. A bool
// result is true if the launcher was told. C++17 over worker.h.
#pragma once

#include "muster/worker.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace muster {
inline namespace v1 {
namespace worker {

// This worker is at this step: two stores into shared memory and a look at the clock.
inline void progress(std::uint64_t step) {
  muster_worker_progress(step);
}

// Something is wrong, in words for people; it is reported. And all is well again.
inline bool unhealthy(const std::string& why) {
  return muster_worker_unhealthy(why.c_str()) == 1;
}

inline bool healthy() {
  return muster_worker_healthy() == 1;
}

// Adds a JSON value to events.jsonl: at most 8 KiB, and 256 KiB in all. False also where it is
// none.
inline bool event(const std::string& json) {
  return muster_worker_event(json.c_str()) == 1;
}

// It has begun to work in the present round.
inline bool ready() {
  return muster_worker_ready() == 1;
}

// The number of the round: the same on all ranks, greater with each round. 0: no muster.
[[nodiscard]] inline std::uint64_t epoch() {
  return muster_worker_epoch();
}

// Whether this worker has been asked to end.
[[nodiscard]] inline bool stopping() {
  return muster_worker_stopping() == 1;
}

enum class NewsKind : std::int32_t {
  none = MUSTER_NEWS_NONE,    // nothing came in that time
  round = MUSTER_NEWS_ROUND,  // the members from now on; the first news
  gone = MUSTER_NEWS_GONE,    // `count` ranks from `rank` on have ended
  stop = MUSTER_NEWS_STOP,    // this node's workers are asked to end, and killed after `seconds`
  ended = MUSTER_NEWS_ENDED,  // there will be no more
};

struct News {
  NewsKind kind = NewsKind::none;
  int rank = 0;  // of a round: this worker's
  int count = 0;
  int world_size = 0;
  std::uint64_t epoch = 0;
  double seconds = 0;
};

// The members of the job, as they change. One thread at a time.
class Feed {
 public:
  Feed() : feed_(muster_feed_open()) {}

  // Waits for so long; a negative time: for ever.
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
            news.seconds};
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
