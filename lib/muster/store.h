/* SPDX-License-Identifier: Apache-2.0
 *
 * A job's key-value store for C: a client (muster, torchrun and PyTorch share one protocol) and a
 * server in a thread of this process. Conventions, errors and last error are those of collective.h.
 * MUSTER_E_TIMEOUT leaves a client usable; MUSTER_E_STORE closes its connection. One thread at a
 * time may use a client. Keys are NUL-terminated; values are bytes. */
#ifndef MUSTER_STORE_H
#define MUSTER_STORE_H

#include "muster/collective_types.h"

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

/* Starts a store server, for ranks whose launcher does not provide one. *listening receives the
 * port; port 0 picks a free one. Runs until muster_store_close, which accepts null. */
MUSTER_API int muster_store_serve(int port, muster_store** store, int* listening);
MUSTER_API void muster_store_close(muster_store* store);

typedef struct muster_store_client muster_store_client;

/* The layout of this struct never changes. */
typedef struct {
  const void* data;
  size_t size;
} muster_bytes;

/* Retries until the server answers or the timeout expires. muster and torchrun set MASTER_ADDR and
 * MASTER_PORT; any other TCPStore server works too. */
MUSTER_API int muster_store_connect(const char* host,
                                    int port,
                                    int64_t timeout_ns,
                                    muster_store_client** client);
/* Null is allowed. */
MUSTER_API void muster_store_disconnect(muster_store_client* client);

/* The server does not acknowledge a set, so the next call that waits for a reply reports the
 * failure. */
MUSTER_API int muster_store_set(muster_store_client* client, const char* key, muster_bytes value);
/* Waits for the key. *value stays valid until the next call on this client. */
MUSTER_API int muster_store_get(muster_store_client* client,
                                const char* key,
                                int64_t timeout_ns,
                                muster_bytes* value);
/* *sum receives the counter's new value. A missing key counts as 0. */
MUSTER_API int muster_store_add(muster_store_client* client,
                                const char* key,
                                int64_t delta,
                                int64_t* sum);
/* Replaces the value if it equals `expected` (empty for a missing key). *value receives the
 * resulting value, which stays valid until the next call on this client. */
MUSTER_API int muster_store_compare_set(muster_store_client* client,
                                        const char* key,
                                        muster_bytes expected,
                                        muster_bytes desired,
                                        muster_bytes* value);
/* Waits until all keys exist. */
MUSTER_API int muster_store_wait(muster_store_client* client,
                                 const char* const* keys,
                                 size_t count,
                                 int64_t timeout_ns);
/* *exist is 1 if all keys exist now, else 0. */
MUSTER_API int muster_store_check(muster_store_client* client,
                                  const char* const* keys,
                                  size_t count,
                                  int* exist);
/* *existed is 1 if the key existed. */
MUSTER_API int muster_store_delete(muster_store_client* client, const char* key, int* existed);
/* Waits until world_size callers have reached this key. Each key serves one barrier. */
MUSTER_API int muster_store_barrier(muster_store_client* client,
                                    const char* key,
                                    int world_size,
                                    int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
