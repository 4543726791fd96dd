/* SPDX-License-Identifier: Apache-2.0
 *
 * Constants and structs of the C interface; collective.h documents the conventions. */
#ifndef MUSTER_COLLECTIVE_TYPES_H
#define MUSTER_COLLECTIVE_TYPES_H

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

/* Device index that means host memory. */
#define MUSTER_HOST (-1)

/* On/off options; 0 selects the default, which each option documents. */
enum { MUSTER_OFF = -1, MUSTER_ON = 1 };

typedef struct muster_comm muster_comm;
typedef struct muster_work muster_work;
typedef struct muster_store muster_store;

typedef struct {
  size_t size;
  int32_t code; /* MUSTER_E_*; 0 for no error */
  int32_t rank; /* failed rank; -1 for no particular rank */
  int32_t native;
  uint64_t epoch;
  uint64_t seq;
} muster_error;

/* For muster_comm_options.recorder_entries: disables the flight recorder. */
#define MUSTER_RECORDER_OFF UINT64_MAX

/* 0 and null select the default. */
typedef struct {
  size_t size;
  const char* name;            /* used in errors and flight records; default: "world" */
  int32_t backend;             /* MUSTER_BACKEND_*; default: MUSTER_BACKEND_AUTO */
  int64_t timeout_ns;          /* per operation; default: 10 minutes */
  int64_t init_timeout_ns;     /* how long to wait for all ranks; default: 60 s */
  const char* recorder_folder; /* for the flight recorder's file; default: shared memory */
  const char* host;            /* ranks with the same value share memory; default: detected */
  const char* address;         /* address where other hosts reach this rank; default: detected */
  const char* port_range;      /* "A-B": range of ports to listen on; default: any free port */
  uint64_t arena_bytes;        /* address space reserved for muster_alloc; default: 64 GiB */
  uint64_t recorder_entries;   /* operations kept in the flight recorder; default: 2048 */
} muster_comm_options;

/* How ranks find each other: a store that all of them can reach (served by muster, torchrun,
 * PyTorch or muster_store_serve), this rank's number and the number of ranks. Ranks of different
 * epochs or jobs never connect to each other. */
typedef struct {
  size_t size;
  const char* store_host; /* null or "" for a single rank */
  int32_t store_port;
  int32_t rank; /* 0 to ranks - 1 */
  int32_t ranks;
  uint64_t epoch;  /* number of restarts */
  const char* job; /* null selects "job" */
} muster_bootstrap;

/* Contiguous memory that the caller owns. The layout of this struct never changes. */
typedef struct {
  void* data;
  size_t count; /* elements, not bytes */
  int32_t dtype;
  int32_t device; /* CUDA ordinal, or MUSTER_HOST */
} muster_buffer;

/* One operation. All ranks pass the same kind, op, root, dtype and counts; in and out have the
 * same dtype and device. For n ranks, with counts in elements:
 *   MUSTER_BARRIER          no buffers
 *   MUSTER_ALL_REDUCE       out on every rank = op over in of all ranks; equal counts
 *   MUSTER_REDUCE           like all_reduce, but only root gets the result; other ranks' out unused
 *   MUSTER_BROADCAST        root's out is copied to out on all other ranks; in is not used
 *   MUSTER_ALL_GATHER       out = in of all ranks in rank order; out.count = n * in.count
 *   MUSTER_REDUCE_SCATTER   out = this rank's block of the reduced in; in.count = n * out.count
 *   MUSTER_ALL_TO_ALL       block j of in becomes block `rank` of out on rank j; equal counts
 *   MUSTER_SEND             sends in to rank root, which calls MUSTER_RECV with the same count
 *   MUSTER_RECV             receives out from rank root
 * An operation is in place if in and out start at the same address. For all_gather and
 * reduce_scatter, the small buffer may be this rank's block of the large one. Buffers must not
 * overlap in any other way. */
typedef struct {
  size_t size;
  int32_t kind;
  int32_t op;
  int32_t root;     /* for reduce and broadcast; the peer for send and recv */
  int32_t is_async; /* host buffers: return before completion; do not touch in or out until then */
  muster_buffer in;
  muster_buffer out;
  int64_t timeout_ns; /* 0 for the communicator's timeout */
  double scale;       /* for MUSTER_PREMUL_SUM: multiplies each element before the sum */
  /* The operation waits for this CUDA stream; null selects the default stream. Use
   * muster_work_wait_stream to make a stream wait for the operation. */
  void* stream;
  /* For is_async with host buffers: how long the call may wait for the other ranks. If they arrive
   * in time, the call runs the operation itself. */
  int64_t max_wait_ns;
} muster_call;

#ifdef __cplusplus
}
#endif

/* NOLINTEND(readability-identifier-naming) */

#endif
