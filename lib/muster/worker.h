/* SPDX-License-Identifier: Apache-2.0
 *
 * C interface for workers: reports to the launcher, and notifications about the job's membership.
 * Outside muster, every function is a no-op. Thread-safe. Only muster_feed_next,
 * muster_worker_preempted after a notice, and the first call wait for the launcher. Unless
 * documented otherwise, functions that return int return 1 if the report was sent, 0 if not. */
#ifndef MUSTER_WORKER_H
#define MUSTER_WORKER_H

#include "muster/collective_types.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

/* Reports this worker's step. Costs two stores to shared memory and one clock read. */
MUSTER_API void muster_worker_progress(uint64_t step);

/* Reports a number, such as the loss, under a name of at most 24 letters, digits and characters
 * _ . / -. Status shows the latest value. Costs a few accesses to shared memory. One thread at a
 * time. Returns 0 for an invalid name, after eight other names, or without a launcher. */
MUSTER_API int muster_worker_number(const char* name, double number);

/* unhealthy reports a problem as human-readable text; healthy withdraws the report. */
MUSTER_API int muster_worker_unhealthy(const char* why);
MUSTER_API int muster_worker_healthy(void);

/* Adds a JSON value to events.jsonl: at most 8 KiB per value and 256 KiB in total. Also returns 0
 * for invalid JSON. */
MUSTER_API int muster_worker_event(const char* json);

/* Reports that this worker has started work in the current round. */
MUSTER_API int muster_worker_ready(void);

/* The round number: the same on all ranks, and increasing. 0 outside muster. */
MUSTER_API uint64_t muster_worker_epoch(void);

/* 1 if this worker was asked to stop. */
MUSTER_API int muster_worker_stopping(void);

/* Exit code of a worker that has saved after a preemption notice. */
#define MUSTER_REQUEUE 75

/* Returns 1 if this rank must save its state now and exit, because the job will be stopped. Call it
 * in the same steps on all ranks, after muster_worker_progress. All ranks get 1 from the same step
 * on. If the program never calls muster_worker_progress, all ranks must make the same number of
 * calls. Without a notice, a call costs two loads from shared memory. One thread at a time. Always
 * 0 in a forked child. */
MUSTER_API int muster_worker_preempted(void);

/* Seconds until the workers are killed; infinite if there is no notice. Another rank may receive
 * the notice one step later. */
MUSTER_API double muster_worker_deadline(void);

/* Reports that this rank has saved its state as of this step. */
MUSTER_API int muster_worker_saved(uint64_t step);

/* A subscription to membership changes. Null outside muster. One thread at a time. */
typedef struct muster_feed muster_feed;

#define MUSTER_NEWS_NONE 0  /* the wait timed out */
#define MUSTER_NEWS_ROUND 1 /* the members of a new round; always sent first */
#define MUSTER_NEWS_GONE 2  /* `count` ranks starting at `rank` have exited */
#define MUSTER_NEWS_STOP 3  /* this node's workers must stop; they are killed after `seconds` */
#define MUSTER_NEWS_ENDED 4 /* no more news will follow */
/* The job will be stopped after `seconds`. muster_worker_preempted returns 1 from `step` on. */
#define MUSTER_NEWS_PREEMPT 5

typedef struct muster_news {
  size_t size; /* set to sizeof(muster_news) */
  int32_t kind;
  int32_t rank; /* ROUND: this worker's rank */
  int32_t count;
  int32_t world_size;
  uint64_t epoch;
  double seconds;
  uint64_t step; /* PREEMPT: 0 if no rank reports steps */
} muster_news;

MUSTER_API muster_feed* muster_feed_open(void);
/* Waits up to timeout_ms (-1 for no limit); returns news->kind. */
MUSTER_API int muster_feed_next(muster_feed* feed, int timeout_ms, muster_news* news);
/* Null is allowed. */
MUSTER_API void muster_feed_close(muster_feed* feed);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
