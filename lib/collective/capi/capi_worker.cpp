// SPDX-License-Identifier: Apache-2.0
#include "muster/worker.h"
#include "worker/worker.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>

static_assert(MUSTER_REQUEUE == muster::worker::kRequeue);

struct muster_feed {
  muster::worker::Rounds rounds;
};

namespace {

using namespace muster;

muster_news news_of(const worker::News& news) {
  muster_news out{};
  std::visit(
      [&out]<class Kind>(const Kind& one) {
        if constexpr (std::is_same_v<Kind, worker::Round>) {
          out.kind = MUSTER_NEWS_ROUND;
          out.epoch = one.epoch;
          out.rank = one.rank;
          out.world_size = one.world_size;
        } else if constexpr (std::is_same_v<Kind, worker::Gone>) {
          out.kind = MUSTER_NEWS_GONE;
          out.epoch = one.epoch;
          out.rank = one.rank;
          out.count = one.count;
        } else if constexpr (std::is_same_v<Kind, worker::Stop>) {
          out.kind = MUSTER_NEWS_STOP;
          out.seconds = one.seconds;
        } else {
          static_assert(std::is_same_v<Kind, worker::Preempt>);
          out.kind = MUSTER_NEWS_PREEMPT;
          out.seconds = one.seconds;
          out.step = one.step.value_or(0);
        }
      },
      news);
  return out;
}

// Fills the members that the caller's version of the struct has.
int give(muster_news made, muster_news* news) {
  const std::size_t size = std::min(news->size, sizeof(made));
  made.size = news->size;
  std::memcpy(news, &made, size);
  return made.kind;
}

}  // namespace

extern "C" {

void muster_worker_progress(uint64_t step) {
  muster::worker::progress(step);
}

int muster_worker_number(const char* name, double number) {
  return name != nullptr && muster::worker::number(name, number) ? 1 : 0;
}

int muster_worker_unhealthy(const char* why) {
  return muster::worker::unhealthy(why == nullptr ? "" : why) ? 1 : 0;
}

int muster_worker_healthy(void) {
  return muster::worker::healthy() ? 1 : 0;
}

int muster_worker_event(const char* json) {
  return json != nullptr && muster::worker::event(json) ? 1 : 0;
}

int muster_worker_ready(void) {
  return muster::worker::ready() ? 1 : 0;
}

uint64_t muster_worker_epoch(void) {
  return muster::worker::epoch();
}

int muster_worker_stopping(void) {
  return muster::worker::stopping() ? 1 : 0;
}

int muster_worker_preempted(void) {
  return muster::worker::preempted() ? 1 : 0;
}

double muster_worker_deadline(void) {
  const auto left = muster::worker::deadline();
  return left ? std::chrono::duration<double>(*left).count()
              : std::numeric_limits<double>::infinity();
}

int muster_worker_saved(uint64_t step) {
  return muster::worker::saved(step) ? 1 : 0;
}

muster_feed* muster_feed_open(void) {
  auto* const feed = new (std::nothrow) muster_feed;
  if (feed != nullptr && feed->rounds.ended()) {
    delete feed;
    return nullptr;
  }
  return feed;
}

int muster_feed_next(muster_feed* feed, int timeout_ms, muster_news* news) {
  muster_news none{};
  none.kind = MUSTER_NEWS_ENDED;
  if (feed == nullptr) {
    return give(none, news);
  }
  const auto timeout = timeout_ms < 0 ? muster::Duration::max()
                                      : muster::Duration(std::chrono::milliseconds(timeout_ms));
  if (const auto next = feed->rounds.next(timeout)) {
    return give(news_of(*next), news);
  }
  none.kind = feed->rounds.ended() ? MUSTER_NEWS_ENDED : MUSTER_NEWS_NONE;
  return give(none, news);
}

void muster_feed_close(muster_feed* feed) {
  delete feed;
}

}  // extern "C"
