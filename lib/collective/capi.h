/* SPDX-License-Identifier: Apache-2.0
 *
 * The collective library for C and for languages that call C. Every function returns 0 or a
 * negative MUSTER_E number, and keeps the error for muster_last_error of the same thread. Structs
 * begin with their size (set it by sizeof), so that later versions can add to their ends: what an
 * older caller does not have is taken as 0. Numbers of enums never change. Threads: as
 * communicator.hpp says; muster_abort, muster_comm_error and the muster_work functions from any. */
#ifndef MUSTER_COLLECTIVE_CAPI_H
#define MUSTER_COLLECTIVE_CAPI_H

#include <stddef.h>
#include <stdint.h>

/* NOLINTBEGIN(readability-identifier-naming): C has no namespaces */

#ifdef __cplusplus
extern "C" {
#endif

#define MUSTER_ABI_VERSION 1
#define MUSTER_API __attribute__((visibility("default")))

enum {
  MUSTER_E_TIMEOUT = -1,
  MUSTER_E_PEER_FAILED = -2,
  MUSTER_E_ABORTED = -3,
  MUSTER_E_MISMATCH = -4,
  MUSTER_E_INVALID_ARGUMENT = -5,
  MUSTER_E_INVALID_STATE = -6,
  MUSTER_E_UNSUPPORTED = -7,
  MUSTER_E_STORE = -8,
  MUSTER_E_SYSTEM = -9,
  MUSTER_E_CUDA = -10,
  MUSTER_E_NCCL = -11
};

enum {
  MUSTER_I8 = 0,
  MUSTER_U8 = 1,
  MUSTER_I32 = 2,
  MUSTER_U32 = 3,
  MUSTER_I64 = 4,
  MUSTER_U64 = 5,
  MUSTER_F16 = 6,
  MUSTER_F32 = 7,
  MUSTER_F64 = 8,
  MUSTER_BF16 = 9,
  MUSTER_F8E4M3 = 10,
  MUSTER_F8E5M2 = 11
};

enum {
  MUSTER_SUM = 0,
  MUSTER_PROD = 1,
  MUSTER_MAX = 2,
  MUSTER_MIN = 3,
  MUSTER_AVG = 4,
  MUSTER_PREMUL_SUM = 5
};

enum {
  MUSTER_BARRIER = 0,
  MUSTER_ALL_REDUCE = 1,
  MUSTER_REDUCE = 2,
  MUSTER_BROADCAST = 3,
  MUSTER_ALL_GATHER = 4,
  MUSTER_REDUCE_SCATTER = 5,
  MUSTER_ALL_TO_ALL = 6,
  MUSTER_SEND = 7,
  MUSTER_RECV = 8
};

enum {
  MUSTER_BACKEND_AUTO = 0,
  MUSTER_BACKEND_SHM = 1,
  MUSTER_BACKEND_TCP = 2,
  MUSTER_BACKEND_HIER = 3,
  MUSTER_BACKEND_NCCL = 4
};

#define MUSTER_HOST (-1)

typedef struct muster_comm muster_comm;
typedef struct muster_work muster_work;
typedef struct muster_store muster_store;

typedef struct {
  size_t size;
  int32_t code; /* MUSTER_E_*, 0: none */
  int32_t rank; /* who failed, -1: nobody in particular */
  int32_t native;
  uint64_t epoch;
  uint64_t seq;
} muster_error;

/* Times are in nanoseconds, 0 for the default; texts may be null. */
typedef struct {
  size_t size;
  const char* name;
  int32_t backend;
  int64_t timeout_ns;
  int64_t init_timeout_ns;
  const char* recorder_folder;
  const char* host;
  const char* address;
  uint64_t arena_bytes;
} muster_comm_options;

/* Where the store is and who we are; the store is that of muster, torchrun or PyTorch. */
typedef struct {
  size_t size;
  const char* store_host;
  int32_t store_port;
  int32_t rank;
  int32_t ranks;
  uint64_t epoch;
  const char* job;
} muster_place;

typedef struct {
  void* data;
  size_t count; /* elements */
  int32_t dtype;
  int32_t device; /* CUDA ordinal, or MUSTER_HOST */
} muster_buffer;

/* One operation; communicator.hpp says what each kind wants of in and out. */
typedef struct {
  size_t size;
  int32_t kind;
  int32_t op;
  int32_t root;     /* of reduce and broadcast; the other side of send and recv */
  int32_t is_async; /* host buffers: return before it is done */
  muster_buffer in;
  muster_buffer out;
  int64_t timeout_ns;
  double scale; /* of MUSTER_PREMUL_SUM */
  void* stream;
} muster_call;

MUSTER_API int muster_abi_version(void);

/* Of the last call of this thread that failed. */
MUSTER_API int muster_last_error(muster_error* error);
/* Writes at most n bytes with their 0; returns the length of the whole text. */
MUSTER_API size_t muster_last_error_text(char* text, size_t n);
MUSTER_API const char* muster_error_name(int code);

/* A store in a thread of this process, for ranks that no launcher serves one for. *listening:
 * its port, a free one for 0. Until closed; null is allowed there. */
MUSTER_API int muster_store_serve(int port, muster_store** store, int* listening);
MUSTER_API void muster_store_close(muster_store* store);

/* Options may be null. */
MUSTER_API int muster_comm_from_env(const muster_comm_options* options, muster_comm** comm);
MUSTER_API int muster_comm_create(const muster_place* place,
                                  const muster_comm_options* options,
                                  muster_comm** comm);
/* Leaves in order. Null is allowed. */
MUSTER_API void muster_comm_destroy(muster_comm* comm);

MUSTER_API int muster_comm_rank(const muster_comm* comm);
MUSTER_API int muster_comm_size(const muster_comm* comm);
MUSTER_API uint64_t muster_comm_epoch(const muster_comm* comm);
MUSTER_API int muster_comm_backend(const muster_comm* comm);

/* *work is null where the operation is over already. Without work (null) it is waited for. */
MUSTER_API int muster_run(muster_comm* comm, const muster_call* call, muster_work** work);

/* Ranks of one colour, ordered by key, then by rank; *part is null for a negative colour. */
MUSTER_API int muster_comm_split(muster_comm* comm, int color, int key, muster_comm** part);
/* After a failure: a new one over the same store, under another epoch. Destroy the old one, too. */
MUSTER_API int muster_comm_rebuild(
    muster_comm* comm, int rank, int ranks, uint64_t epoch, muster_comm** rebuilt);

/* As communicator.hpp says; all ranks alike. MUSTER_E_UNSUPPORTED: more than arena_bytes in all;
 * MUSTER_E_SYSTEM: there is no such memory. */
MUSTER_API int muster_alloc(muster_comm* comm, size_t bytes, int device, void** memory);
MUSTER_API int muster_free(muster_comm* comm, void* memory);

/* Operations of all ranks, now and later, end with MUSTER_E_ABORTED and this reason. */
MUSTER_API void muster_abort(muster_comm* comm, const char* reason);
/* 0 while the communicator lives, else its error, which is also kept as the last error. */
MUSTER_API int muster_comm_error(const muster_comm* comm);
MUSTER_API size_t muster_comm_dump(const muster_comm* comm, char* text, size_t n);

/* The work functions take null for an operation that is over. */
MUSTER_API int muster_work_done(const muster_work* work);
/* 0: as long as the operation may take. */
MUSTER_API int muster_work_wait(const muster_work* work, int64_t patience_ns);
MUSTER_API int muster_work_wait_stream(const muster_work* work, void* stream);
MUSTER_API void muster_work_free(muster_work* work);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
