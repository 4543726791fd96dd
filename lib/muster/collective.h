/* SPDX-License-Identifier: Apache-2.0
 *
 * The collective library for C and for languages that call C. Functions that return int return 0 or
 * a negative MUSTER_E number, unless they say otherwise, and keep the error for muster_last_error
 * of the same thread. Texts are UTF-8 and end with 0; the library copies what it keeps.
 *
 * Structs: those that may grow begin with their size (set it by sizeof), and later versions add to
 * their ends only: what an older caller does not have is taken as 0. muster_buffer has no size: it
 * never changes. Numbers of enums never change.
 *
 * Threads: one thread at a time uses a communicator; muster_abort, muster_comm_error and the
 * muster_work functions may be called from any thread. "Collective" functions are called by all
 * ranks, in the same order among their operations. */
#ifndef MUSTER_COLLECTIVE_H
#define MUSTER_COLLECTIVE_H

#include "muster/collective_types.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

MUSTER_API int muster_abi_version(void);

/* For an interpreter that is about to end the process, by the thread that does so: from now on
 * another thread that it ends below C++ that may not throw (where std::terminate would be called
 * with no exception) stays where it is until the process is gone. */
MUSTER_API void muster_process_ends(void);

/* Of the last call of this thread that failed; error->size must be set. */
MUSTER_API int muster_last_error(muster_error* error);
/* Writes at most n bytes with their 0; returns the length of the whole text. */
MUSTER_API size_t muster_last_error_text(char* text, size_t n);
MUSTER_API const char* muster_error_name(int code);

/* A communicator from the variables that muster or torchrun sets (RANK, WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT, …), or from a bootstrap. Collective; blocks until all ranks have called it, at most
 * init_timeout_ns. Options may be null. Errors: MUSTER_E_INVALID_ARGUMENT, MUSTER_E_STORE,
 * MUSTER_E_TIMEOUT (the text names who is missing), MUSTER_E_PEER_FAILED, MUSTER_E_MISMATCH,
 * MUSTER_E_SYSTEM. */
MUSTER_API int muster_comm_from_env(const muster_comm_options* options, muster_comm** comm);
MUSTER_API int muster_comm_create(const muster_bootstrap* bootstrap,
                                  const muster_comm_options* options,
                                  muster_comm** comm);
/* Leaves in order: operations under way are waited for. Free its work objects and gradients before.
 * Null is allowed. */
MUSTER_API void muster_comm_destroy(muster_comm* comm);

MUSTER_API int muster_comm_rank(const muster_comm* comm);
MUSTER_API int muster_comm_size(const muster_comm* comm);
MUSTER_API uint64_t muster_comm_epoch(const muster_comm* comm);
MUSTER_API int muster_comm_backend(const muster_comm* comm);

/* Host buffers: returns when the operation is over, unless is_async. Device buffers: returns when
 * it is queued. *work is null where the operation is over already, else free it. Where `work`
 * itself is null the operation is waited for. */
MUSTER_API int muster_run(muster_comm* comm, const muster_call* call, muster_work** work);

/* Collective. Ranks of one color, ordered by key, then by rank; *part is null for a negative
 * color. */
MUSTER_API int muster_comm_split(muster_comm* comm, int color, int key, muster_comm** part);
/* After a failure, collective among the ranks of the new communicator: over the same store, under
 * another epoch. Destroy the old one, too. */
MUSTER_API int muster_comm_rebuild(
    muster_comm* comm, int rank, int ranks, uint64_t epoch, muster_comm** rebuilt);

/* Memory that operations read and write without a copy, zeroed, aligned to 4 KiB. Collective: all
 * ranks call it with the same size in the same order, else operations on it copy. Valid until freed
 * or until the communicator is destroyed. MUSTER_E_UNSUPPORTED: more than arena_bytes in all;
 * MUSTER_E_SYSTEM: the host has no such memory. */
MUSTER_API int muster_alloc(muster_comm* comm, size_t bytes, int device, void** memory);
MUSTER_API int muster_free(muster_comm* comm, void* memory);

/* Operations of all ranks, now and later, end with MUSTER_E_ABORTED and this reason. */
MUSTER_API void muster_abort(muster_comm* comm, const char* reason);
/* 0 while the communicator lives, else its error, which is also kept as the last error. */
MUSTER_API int muster_comm_error(const muster_comm* comm);
/* Where each rank of this host is, one line each; lengths as muster_last_error_text. */
MUSTER_API size_t muster_comm_dump(const muster_comm* comm, char* text, size_t n);

/* The work functions take null for an operation that is over. */
/* 1: over, 0: under way. */
MUSTER_API int muster_work_done(const muster_work* work);
/* Until the results can be read by the host, at most timeout_ns (0: as long as the operation itself
 * may take). MUSTER_E_TIMEOUT with the operation still under way: wait again. */
MUSTER_API int muster_work_wait(const muster_work* work, int64_t timeout_ns);
/* Device buffers: what is queued on this CUDA stream from now on runs after the operation. */
MUSTER_API int muster_work_wait_stream(const muster_work* work, void* stream);
MUSTER_API void muster_work_free(muster_work* work);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
