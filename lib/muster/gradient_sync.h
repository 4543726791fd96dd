/* SPDX-License-Identifier: Apache-2.0
 *
 * GradientSync for C: the gradients of a training step are summed while the backward pass still
 * runs. gradient_sync.hpp says what each call does; conventions, errors and sizes of structs are
 * those of collective.h. Threads: mark_ready and mark_unused from any, the others from one at a
 * time. */
#ifndef MUSTER_GRADIENT_SYNC_H
#define MUSTER_GRADIENT_SYNC_H

#include "muster/collective.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_gradients muster_gradients;

/* Performs a bucket instead of the all-reduce, in place; called by mark_ready, in its thread, in
 * the same order on all ranks. It may start one operation, whose work it leaves in *work (null
 * before the call; the library frees it), and may call no muster_gradients function. Not 0: its
 * error, which mark_ready then returns; the text is that of muster_last_error if the numbers are
 * equal. */
typedef int (*muster_gradients_hook)(void* context,
                                     muster_comm* comm,
                                     const muster_buffer* bucket,
                                     muster_work** work);

/* All that is to be known of a bucket: gradient ids[i] lies in elements firsts[i] to firsts[i] +
 * counts[i] - 1 of it. */
typedef struct {
  size_t size;
  muster_buffer buffer; /* of the wire type, if there is one */
  uint64_t index;       /* as launched, from 0 */
  int32_t is_last;      /* of the step */
  void* stream;         /* CUDA stream on which the gradients are complete */
  uint64_t gradients;   /* how many */
  const int32_t* ids;
  const uint64_t* firsts;
  const uint64_t* counts;
} muster_gradients_bucket;

/* As muster_gradients_hook; the bucket is there during the call. */
typedef int (*muster_gradients_bucket_hook)(void* context,
                                            muster_comm* comm,
                                            const muster_gradients_bucket* bucket,
                                            muster_work** work);

/* 0 is the default everywhere; the names are those of GradientSyncOptions, and switches take
 * MUSTER_ON or MUSTER_OFF. */
typedef struct {
  size_t size;
  uint64_t first_bucket; /* bytes: 1 MiB */
  uint64_t bucket_cap;   /* bytes: what suits the device, gradient_plan.hpp */
  int32_t wire;          /* MUSTER_BF16 or MUSTER_F16 for f32 gradients; 0: as they are */
  int32_t average;       /* on: the average; off: the sum. On */
  int32_t owns_memory;   /* on: gradients lie in buckets (grad); off: in the caller's memory (bind),
                            from which they are copied. On */
  int32_t background;    /* on: the communicator's thread performs buckets; off: mark_ready. On */
  int32_t has_unused;    /* on: mark_unused may be called. Off */
  int32_t reorder;       /* on: after the first step buckets follow the order of readiness. On */
  int32_t on_gpu;        /* 1: buckets lie on the GPU `device`; 0: on the host */
  int32_t device;        /* CUDA ordinal */
  muster_gradients_hook hook;
  void* context;                            /* of the hook */
  muster_gradients_bucket_hook bucket_hook; /* instead of `hook` */
} muster_gradients_options;

typedef struct {
  size_t size;
  uint64_t buckets; /* 0: an accumulating step */
  uint64_t bytes;
  int64_t exposed_ns; /* time in wait: what the backward pass did not hide */
  int32_t moved;      /* gradients lie elsewhere now: ask muster_gradients_grad again */
} muster_gradients_stats;

/* Options may be null. The communicator must outlive the gradients, or what rebind leaves it. */
MUSTER_API int muster_gradients_create(muster_comm* comm,
                                       const muster_gradients_options* options,
                                       muster_gradients** gradients);
/* Waits for operations under way: after a step that was begun and not waited for, abort first.
 * Null is allowed. */
MUSTER_API void muster_gradients_free(muster_gradients* gradients);

/* *id: 0, 1, …; in the order of the forward pass, the same on all ranks. */
MUSTER_API int muster_gradients_add(
    muster_gradients* gradients, const char* name, int dtype, size_t count, int* id);
/* Collective. MUSTER_E_MISMATCH: ranks have different parameters or options. */
MUSTER_API int muster_gradients_finalize(muster_gradients* gradients);

/* Memory of a gradient in its bucket, zeroed at first; see muster_gradients_stats.moved. */
MUSTER_API int muster_gradients_grad(muster_gradients* gradients, int id, void** memory);
/* Memory of the gradients' own device. On GPUs it is read on the stream of mark_ready, and the sum
   is written on that of wait_stream, or before wait returns. */
MUSTER_API int muster_gradients_bind(muster_gradients* gradients, int id, void* memory);

/* synchronize 0: this step only accumulates. */
MUSTER_API int muster_gradients_begin(muster_gradients* gradients, int synchronize);
MUSTER_API int muster_gradients_mark_ready(muster_gradients* gradients, int id, void* stream);
MUSTER_API int muster_gradients_mark_unused(muster_gradients* gradients, int id);
/* On GPUs: its zeros are written on this stream, that of the other gradients. */
MUSTER_API int muster_gradients_mark_unused_on(muster_gradients* gradients, int id, void* stream);
/* Stats (their size set) may be null. */
MUSTER_API int muster_gradients_wait(muster_gradients* gradients, muster_gradients_stats* stats);
/* At most timeout_ns. MUSTER_E_TIMEOUT: the step goes on, and can be waited for again. */
MUSTER_API int muster_gradients_wait_for(muster_gradients* gradients,
                                         int64_t timeout_ns,
                                         muster_gradients_stats* stats);
MUSTER_API int muster_gradients_wait_stream(muster_gradients* gradients,
                                            void* stream,
                                            muster_gradients_stats* stats);

/* 1 if any rank used it in the last step, or nobody counts (no has_unused). */
MUSTER_API int muster_gradients_used(const muster_gradients* gradients, int id);
MUSTER_API void muster_gradients_zero(muster_gradients* gradients);
/* On GPUs: queued on this stream. */
MUSTER_API int muster_gradients_zero_on(muster_gradients* gradients, void* stream);
/* To another communicator, with the values of the gradients: they lie elsewhere then. The
 * communicator before is used for the last time. */
MUSTER_API int muster_gradients_rebind(muster_gradients* gradients, muster_comm* comm);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
