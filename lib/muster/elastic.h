/* SPDX-License-Identifier: Apache-2.0
 *
 * Training functions that survive the loss of other ranks, for C: muster --restart=rank replaces
 * only the rank that failed. Conventions, errors and last error are those of collective.h. One
 * thread at a time may use a state. */
#ifndef MUSTER_ELASTIC_H
#define MUSTER_ELASTIC_H

#include "muster/collective_types.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of the program that is equal on all ranks, and a copy of it: the last commit. */
typedef struct muster_state muster_state;

MUSTER_API int muster_state_create(muster_state** state);
/* Null is allowed. */
MUSTER_API void muster_state_destroy(muster_state* state);

/* Adds host memory to the state. The caller owns it, and it must not move. All ranks add the same
 * sizes in the same order. MUSTER_E_INVALID_STATE after the first commit and after the start of
 * muster_elastic_run. */
MUSTER_API int muster_state_add(muster_state* state, void* data, size_t bytes);

/* Registers a function that muster_elastic_run calls after each loss of a rank, in surviving
 * processes, before it calls the training function again. */
MUSTER_API void muster_state_on_reset(muster_state* state,
                                      void (*function)(void* user),
                                      void* user);

/* Copies the memory and reports the number of commits as this rank's progress. All ranks commit at
 * the same points of the training function. After the loss of a rank, all ranks continue from the
 * newest commit that any of them has. The memory for two copies is allocated in the first call or
 * when muster_elastic_run starts.
 * MUSTER_E_PEER_FAILED: another rank was lost, and the copy is stored; the training function must
 * return the error. */
MUSTER_API int muster_state_commit(muster_state* state);
/* Returns to the last commit. Does nothing before the first commit. */
MUSTER_API void muster_state_restore(muster_state* state);
/* The number of commits since the job started. */
MUSTER_API uint64_t muster_state_commits(const muster_state* state);

/* The training function. Returns 0 on success, else the error of a failed call or any other number.
 * Must destroy everything that it has created from the communicator, but not the communicator. */
typedef int (*muster_train_function)(muster_comm* comm, void* user);

/* Connects all ranks, sends them the state of the rank with the most commits (at the start of the
 * job: rank 0's values) and calls the training function. If another rank is lost meanwhile,
 * operations on the communicator and commits fail, and the training function must return the error.
 * muster_elastic_run then restores the state, waits for the replacement, connects again and calls
 * the training function again. The training function must therefore start from the values in the
 * state.
 *
 * A process whose training function has failed must exit within 3 seconds (15 seconds in a job of
 * several nodes) after this function returns: it aborts the communicator, so the other ranks' calls
 * fail, too, and they wait that long for the report that this rank was lost.
 *
 * Returns 0 when the training function has returned 0 on all ranks. If the training function
 * returns another number, and muster reports no lost rank within 3 seconds (15 seconds in a job of
 * several nodes), returns this number. Without muster, returns it at once. Other return values are
 * MUSTER_E numbers:
 * MUSTER_E_INVALID_STATE (second call in a process that muster started), MUSTER_E_SYSTEM (muster
 * rejects or closes the connection of this process), or an error of muster_comm_from_env or of an
 * operation. Options may be null; `name` and, under muster, `init_timeout_ns` are not used. */
MUSTER_API int muster_elastic_run(muster_state* state,
                                  muster_train_function train,
                                  void* user,
                                  const muster_comm_options* options);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
