/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker may say to its launcher, and what it hears of the job, for C. Outside of muster
 * every function does nothing. Any thread; nothing waits for the launcher, but for
 * muster_feed_next, and the first call for its answer. Functions that return int return 1 if the
 * launcher was told, 0 if nobody heard, unless they say otherwise. */
#ifndef MUSTER_WORKER_H
#define MUSTER_WORKER_H

#include "muster/collective_types.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

/* This worker is at this step: two stores into shared memory and a look at the clock. */
MUSTER_API void muster_worker_progress(uint64_t step);

/* Something is wrong, in words for people; it is reported. And all is well again. */
MUSTER_API int muster_worker_unhealthy(const char* why);
MUSTER_API int muster_worker_healthy(void);

/* Adds a JSON value to events.jsonl: at most 8 KiB, and 256 KiB in all. 0 also where it is none. */
MUSTER_API int muster_worker_event(const char* json);

/* It has begun to work in the present round. */
MUSTER_API int muster_worker_ready(void);

/* The number of the round: the same on all ranks, greater with each round. 0: no muster. */
MUSTER_API uint64_t muster_worker_epoch(void);

/* 1: this worker has been asked to end. */
MUSTER_API int muster_worker_stopping(void);

/* The members of the job. Null outside of muster; one thread at a time uses it. */
typedef struct muster_feed muster_feed;

#define MUSTER_NEWS_NONE 0  /* nothing came in that time */
#define MUSTER_NEWS_ROUND 1 /* the members from now on; the first news */
#define MUSTER_NEWS_GONE 2  /* `count` ranks from `rank` on have ended */
#define MUSTER_NEWS_STOP 3  /* this node's workers are asked to end, and killed after `seconds` */
#define MUSTER_NEWS_ENDED 4 /* there will be no more */

typedef struct muster_news {
  size_t size; /* set it by sizeof */
  int32_t kind;
  int32_t rank; /* ROUND: this worker's */
  int32_t count;
  int32_t world_size;
  uint64_t epoch;
  double seconds;
} muster_news;

MUSTER_API muster_feed* muster_feed_open(void);
/* Waits for so long (-1: for ever); returns news->kind. */
MUSTER_API int muster_feed_next(muster_feed* feed, int timeout_ms, muster_news* news);
/* Null is allowed. */
MUSTER_API void muster_feed_close(muster_feed* feed);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
