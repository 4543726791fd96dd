/* SPDX-License-Identifier: Apache-2.0
 *
 * GradientSync for C: sums the gradients of a training step while the backward pass is still
 * running. gradient_sync.hpp documents each call; conventions, errors and struct sizes are those of
 * collective.h. Threads: any thread may call mark_ready and mark_unused; only one
 * thread at a time may call the others. */
#ifndef MUSTER_GRADIENT_SYNC_H
#define MUSTER_GRADIENT_SYNC_H

#include "muster/collective.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_gradients muster_gradients;

/* Processes a bucket in place, instead of the all-reduce. Called by mark_ready on the same thread,
 * in the same order on all ranks. The hook may start one operation and store its work in *work
 * (initially null; the library frees it). It must not call muster_gradients functions. If the hook
 * returns a nonzero code, mark_ready fails with that code. If the code stored by muster_last_error
 * equals the hook's return value, its message becomes mark_ready's error text. Otherwise the text
 * is "GradientSync: the hook returned CODE". */
typedef int (*muster_gradients_hook)(void* context,
                                     muster_comm* comm,
                                     const muster_buffer* bucket,
                                     muster_work** work);

/* Describes a bucket: gradient ids[i] occupies its elements firsts[i] to firsts[i] + counts[i] -
 * 1. */
typedef struct {
  size_t size;
  muster_buffer buffer; /* uses the wire type if one is set */
  uint64_t index;       /* launch order, from 0 */
  int32_t is_last;      /* last bucket of the step */
  void* stream;         /* CUDA stream on which the gradients are complete */
  uint64_t gradients;   /* number of gradients */
  const int32_t* ids;
  const uint64_t* firsts;
  const uint64_t* counts;
} muster_gradients_bucket;

/* Like muster_gradients_hook; the bucket is valid only during the call. */
typedef int (*muster_gradients_bucket_hook)(void* context,
                                            muster_comm* comm,
                                            const muster_gradients_bucket* bucket,
                                            muster_work** work);

/* 0 selects the default everywhere. Names match GradientSyncOptions; on/off options take
 * MUSTER_ON or MUSTER_OFF. */
typedef struct {
  size_t size;
  uint64_t first_bucket; /* bytes; default: 1 MiB */
  uint64_t bucket_cap;   /* bytes; the default depends on the device, see gradient_plan.hpp */
  int32_t wire;          /* MUSTER_BF16 or MUSTER_F16 for f32 gradients; 0 for no conversion */
  int32_t average;       /* on: average; off: sum. Default: on */
  int32_t owns_memory;   /* on: gradients live in buckets (grad); off: in the caller's memory
                            (bind), copied in and out. Default: on */
  int32_t background;    /* on: the communicator's thread reduces buckets; off: mark_ready does.
                            Default: on */
  int32_t has_unused;    /* on: mark_unused may be called. Default: off */
  int32_t reorder;       /* on: after step 1, order buckets by readiness. Default: on */
  int32_t on_gpu;        /* 1 if buckets live on GPU `device`, 0 if on the host */
  int32_t device;        /* CUDA ordinal */
  muster_gradients_hook hook;
  void* context;                            /* passed to the hook */
  muster_gradients_bucket_hook bucket_hook; /* used instead of `hook` */
} muster_gradients_options;

typedef struct {
  size_t size;
  uint64_t buckets; /* 0 if this step only accumulated gradients */
  uint64_t bytes;
  int64_t exposed_ns; /* time spent in wait, not overlapped with the backward pass */
  int32_t moved;      /* gradients have new addresses: call muster_gradients_grad again */
} muster_gradients_stats;

/* Options may be null. The communicator must stay valid until the gradients are freed or
 * rebound. */
MUSTER_API int muster_gradients_create(muster_comm* comm,
                                       const muster_gradients_options* options,
                                       muster_gradients** gradients);
/* Waits for operations in progress. If a step has begun and muster_gradients_wait has not been
 * called, call muster_abort first. Null is allowed. */
MUSTER_API void muster_gradients_free(muster_gradients* gradients);

/* *id receives the gradient's number, from 0. Add gradients in forward order, which must be the
 * same on all ranks. */
MUSTER_API int muster_gradients_add(
    muster_gradients* gradients, const char* name, int dtype, size_t count, int* id);
/* Collective. MUSTER_E_MISMATCH: parameters or options differ between ranks. */
MUSTER_API int muster_gradients_finalize(muster_gradients* gradients);

/* The gradient's memory in its bucket, initially zero; see muster_gradients_stats.moved. */
MUSTER_API int muster_gradients_grad(muster_gradients* gradients, int id, void** memory);
/* Sets the caller's memory for a gradient, on the same device. On GPUs, the memory is read on the
 * stream of mark_ready. The sum is written on the stream of wait_stream, or before wait returns. */
MUSTER_API int muster_gradients_bind(muster_gradients* gradients, int id, void* memory);

/* If synchronize is 0, this step only accumulates. */
MUSTER_API int muster_gradients_begin(muster_gradients* gradients, int synchronize);
MUSTER_API int muster_gradients_mark_ready(muster_gradients* gradients, int id, void* stream);
MUSTER_API int muster_gradients_mark_unused(muster_gradients* gradients, int id);
/* On GPUs: writes zeros on this stream, which must be the stream of the step's other gradients. */
MUSTER_API int muster_gradients_mark_unused_on(muster_gradients* gradients, int id, void* stream);
/* Stats may be null; otherwise set their size. */
MUSTER_API int muster_gradients_wait(muster_gradients* gradients, muster_gradients_stats* stats);
/* Waits for at most timeout_ns. On MUSTER_E_TIMEOUT the step continues, and the caller may
 * wait again. */
MUSTER_API int muster_gradients_wait_for(muster_gradients* gradients,
                                         int64_t timeout_ns,
                                         muster_gradients_stats* stats);
MUSTER_API int muster_gradients_wait_stream(muster_gradients* gradients,
                                            void* stream,
                                            muster_gradients_stats* stats);

/* Returns 1 if any rank used the gradient in the last step, or if has_unused is off, else 0. */
MUSTER_API int muster_gradients_used(const muster_gradients* gradients, int id);
MUSTER_API void muster_gradients_zero(muster_gradients* gradients);
/* On GPUs, the work is queued on this stream. */
MUSTER_API int muster_gradients_zero_on(muster_gradients* gradients, void* stream);
/* Moves the gradients to another communicator. Their values are kept, but their addresses change.
 * The old communicator must still exist during this call. */
MUSTER_API int muster_gradients_rebind(muster_gradients* gradients, muster_comm* comm);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
