/* SPDX-License-Identifier: Apache-2.0
 *
 * The collective library for C and for languages that call C. Unless documented otherwise,
 * functions that return int return 0 or a negative MUSTER_E number, and store the error for
 * muster_last_error in the same thread. Strings are UTF-8 and NUL-terminated; the library copies
 * those that it keeps.
 *
 * Structs that may grow start with their size (set it to sizeof). Later versions only append
 * members, and a member that an older caller lacks counts as 0. muster_buffer has no size because
 * it never changes. Enum values never change.
 *
 * Threads: a communicator must be used by one thread at a time, except that any thread may call
 * muster_abort, muster_comm_error and the muster_work functions. All ranks must call "collective"
 * functions, in the same order relative to their operations. */
#ifndef MUSTER_COLLECTIVE_H
#define MUSTER_COLLECTIVE_H

#include "muster/collective_types.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

MUSTER_API int muster_abi_version(void);

/* Call this from the thread that is about to shut down an interpreter (Python). The interpreter may
 * then unwind another thread through a noexcept C++ frame, which would end in std::terminate
 * without an active exception. After this call, such a thread sleeps until the process exits
 * instead. */
MUSTER_API void muster_process_ends(void);

/* Returns the error of this thread's last failed call. Set error->size first. */
MUSTER_API int muster_last_error(muster_error* error);
/* Writes at most n bytes including the NUL; returns the length of the full text. */
MUSTER_API size_t muster_last_error_text(char* text, size_t n);
MUSTER_API const char* muster_error_name(int code);

/* Creates a communicator from the variables that muster or torchrun sets (RANK, WORLD_SIZE,
 * MASTER_ADDR, MASTER_PORT, …), or from a bootstrap. Collective: blocks until all ranks have
 * called it, for at most init_timeout_ns. Options may be null. Errors: MUSTER_E_INVALID_ARGUMENT,
 * MUSTER_E_STORE, MUSTER_E_TIMEOUT (the text names the missing ranks), MUSTER_E_PEER_FAILED,
 * MUSTER_E_MISMATCH, MUSTER_E_SYSTEM. */
MUSTER_API int muster_comm_from_env(const muster_comm_options* options, muster_comm** comm);
MUSTER_API int muster_comm_create(const muster_bootstrap* bootstrap,
                                  const muster_comm_options* options,
                                  muster_comm** comm);
/* Waits for operations in progress, then leaves the group. Free the communicator's work objects
 * and gradients first. Null is allowed. */
MUSTER_API void muster_comm_destroy(muster_comm* comm);

MUSTER_API int muster_comm_rank(const muster_comm* comm);
MUSTER_API int muster_comm_size(const muster_comm* comm);
MUSTER_API uint64_t muster_comm_epoch(const muster_comm* comm);
MUSTER_API int muster_comm_backend(const muster_comm* comm);

/* Host buffers: returns when the operation is complete, unless is_async is set. Device buffers:
 * returns when the operation is queued. *work is null if the operation is already complete;
 * otherwise free it. If `work` itself is null, the call waits for completion. */
MUSTER_API int muster_run(muster_comm* comm, const muster_call* call, muster_work** work);

/* Collective. *part receives a communicator for the ranks with the same color, ordered by key, then
 * by rank. *part is null for a negative color. */
MUSTER_API int muster_comm_split(muster_comm* comm, int color, int key, muster_comm** part);
/* After a failure: creates a communicator over the same store with another epoch. Collective among
 * the ranks of the new communicator. The caller must still destroy the old one. */
MUSTER_API int muster_comm_rebuild(
    muster_comm* comm, int rank, int ranks, uint64_t epoch, muster_comm** rebuilt);

/* Allocates zeroed memory, aligned to 4 KiB, that operations read and write without a copy.
 * Collective: all ranks call it with the same size in the same order; otherwise operations on the
 * memory make copies. Valid until freed or until the communicator is destroyed.
 * MUSTER_E_UNSUPPORTED: the total would exceed arena_bytes; MUSTER_E_SYSTEM: the host is out of
 * memory. */
MUSTER_API int muster_alloc(muster_comm* comm, size_t bytes, int device, void** memory);
MUSTER_API int muster_free(muster_comm* comm, void* memory);

/* Fails all current and future operations on all ranks with MUSTER_E_ABORTED and this reason. */
MUSTER_API void muster_abort(muster_comm* comm, const char* reason);
/* 0 while the communicator is usable; otherwise the error that killed it, which also becomes the
 * last error. */
MUSTER_API int muster_comm_error(const muster_comm* comm);
/* Describes each rank on this host, one line each; n and the result are as for
 * muster_last_error_text. */
MUSTER_API size_t muster_comm_dump(const muster_comm* comm, char* text, size_t n);

/* The work functions accept null, which represents a completed operation. */
/* Returns 1 if complete, 0 if in progress. */
MUSTER_API int muster_work_done(const muster_work* work);
/* Waits until the host can read the results, for at most timeout_ns (0: the operation's own
 * timeout). Returns MUSTER_E_TIMEOUT while the operation is still in progress; the caller may wait
 * again. */
MUSTER_API int muster_work_wait(const muster_work* work, int64_t timeout_ns);
/* Device buffers: makes later work on this CUDA stream wait for the operation. */
MUSTER_API int muster_work_wait_stream(const muster_work* work, void* stream);
MUSTER_API void muster_work_free(muster_work* work);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
