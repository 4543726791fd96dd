// SPDX-License-Identifier: Apache-2.0
// NcclLibrary: functions of a libnccl found at run time. Uses the types of the real header, so that
// incompatible changes by NVIDIA are compile errors. Used by NcclCommunicator. Value type; the
// library stays loaded. Any thread.
#pragma once

#include "collective/nccl/library_places.hpp"
#include "collective/nccl/shared_object.hpp"

#include <nccl.h>

#include <memory>

namespace muster::collective::nccl {

// Libraries that lack any of these functions are rejected.
// clang-format off
#define MUSTER_NCCL_REQUIRED(entry)             \
  entry(get_version, ncclGetVersion)            \
  entry(get_unique_id, ncclGetUniqueId)         \
  entry(init_rank, ncclCommInitRankConfig)      \
  entry(abort, ncclCommAbort)                   \
  entry(destroy, ncclCommDestroy)               \
  entry(finalize, ncclCommFinalize)             \
  entry(split, ncclCommSplit)                   \
  entry(get_async_error, ncclCommGetAsyncError) \
  entry(all_reduce, ncclAllReduce)              \
  entry(reduce, ncclReduce)                     \
  entry(broadcast, ncclBroadcast)               \
  entry(reduce_scatter, ncclReduceScatter)      \
  entry(all_gather, ncclAllGather)              \
  entry(send, ncclSend)                         \
  entry(recv, ncclRecv)                         \
  entry(group_start, ncclGroupStart)            \
  entry(group_end, ncclGroupEnd)                \
  entry(get_error_string, ncclGetErrorString)   \
  entry(get_last_error, ncclGetLastError)       \
  entry(count, ncclCommCount)                   \
  entry(user_rank, ncclCommUserRank)
// clang-format on

// Null if this version of the library does not have the function.
// clang-format off
#define MUSTER_NCCL_OPTIONAL(entry)                   \
  entry(init_rank_scalable, ncclCommInitRankScalable) \
  entry(all_to_all, ncclAlltoAll)                     \
  entry(mem_alloc, ncclMemAlloc)                      \
  entry(mem_free, ncclMemFree)                        \
  entry(comm_register, ncclCommRegister)              \
  entry(comm_deregister, ncclCommDeregister)          \
  entry(create_premul_sum, ncclRedOpCreatePreMulSum)  \
  entry(destroy_op, ncclRedOpDestroy)

// clang-format on

struct NcclTable {
// NOLINTBEGIN(bugprone-macro-parentheses): names of functions
#define MUSTER_ENTRY(name, symbol) decltype(&::symbol) name = nullptr;
  MUSTER_NCCL_REQUIRED(MUSTER_ENTRY)
  MUSTER_NCCL_OPTIONAL(MUSTER_ENTRY)
#undef MUSTER_ENTRY
  // NOLINTEND(bugprone-macro-parentheses)
};

struct NcclLibrary {
  NcclTable call;
  std::string path;
  int version = 0;  // 22809 is 2.28.9

  [[nodiscard]] bool has_fp8() const { return version >= 22400; }
};

// Returns the first candidate that can be opened and has the required functions. Error:
// unsupported, with the reason for each candidate.
[[nodiscard]] Result<std::shared_ptr<const NcclLibrary>> load_nccl(
    const std::vector<Place>& places);

// Example: "2.28.9".
[[nodiscard]] std::string describe_nccl_version(int version);

}  // namespace muster::collective::nccl
