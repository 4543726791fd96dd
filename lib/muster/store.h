/* SPDX-License-Identifier: Apache-2.0
 *
 * The key-value store of a job for C: a client of it (of muster, torchrun or PyTorch, one format),
 * and a server in a thread of this process. Conventions, errors and last error are those of
 * collective.h; MUSTER_E_TIMEOUT leaves a client as it was, MUSTER_E_STORE ends its connection.
 * Threads: one at a time uses a client. Keys end with 0; values are bytes. */
#ifndef MUSTER_STORE_H
#define MUSTER_STORE_H

#include "muster/collective_types.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

/* For ranks that no launcher serves a store for. *listening: its port, a free one for 0. Until
 * closed; null is allowed there. */
MUSTER_API int muster_store_serve(int port, muster_store** store, int* listening);
MUSTER_API void muster_store_close(muster_store* store);

typedef struct muster_store_client muster_store_client;

/* This struct never changes. */
typedef struct {
  const void* data;
  size_t size;
} muster_bytes;

/* Keeps trying until the server answers or the time is over: that of MASTER_ADDR and MASTER_PORT,
 * which muster and torchrun set, or any other one. */
MUSTER_API int muster_store_connect(const char* host,
                                    int port,
                                    int64_t timeout_ns,
                                    muster_store_client** client);
/* Null is allowed. */
MUSTER_API void muster_store_disconnect(muster_store_client* client);

/* Not answered by the server: a failure shows at the next call that is. */
MUSTER_API int muster_store_set(muster_store_client* client, const char* key, muster_bytes value);
/* Waits for the key. *value is there until the next call on this client. */
MUSTER_API int muster_store_get(muster_store_client* client,
                                const char* key,
                                int64_t timeout_ns,
                                muster_bytes* value);
/* *sum: the counter after the addition; a missing key counts as 0. */
MUSTER_API int muster_store_add(muster_store_client* client,
                                const char* key,
                                int64_t delta,
                                int64_t* sum);
/* Replaces the value if it is `expected` (a missing key: of no bytes). *value is what the key holds
 * then, until the next call on this client. */
MUSTER_API int muster_store_compare_set(muster_store_client* client,
                                        const char* key,
                                        muster_bytes expected,
                                        muster_bytes desired,
                                        muster_bytes* value);
/* Until all keys exist. */
MUSTER_API int muster_store_wait(muster_store_client* client,
                                 const char* const* keys,
                                 size_t count,
                                 int64_t timeout_ns);
/* *exist: 1 if all keys exist now, else 0. */
MUSTER_API int muster_store_check(muster_store_client* client,
                                  const char* const* keys,
                                  size_t count,
                                  int* exist);
/* *existed: 1 if the key did. */
MUSTER_API int muster_store_delete(muster_store_client* client, const char* key, int* existed);
/* Until world_size callers have come to the key, which is good for one barrier. */
MUSTER_API int muster_store_barrier(muster_store_client* client,
                                    const char* key,
                                    int world_size,
                                    int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
