// SPDX-License-Identifier: Apache-2.0
// Options, hook argument and step results of GradientSync. Value types.
#pragma once

#include "muster/collective.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace muster {
inline namespace v1 {

// A bucket of complete gradients, as passed to a hook. Gradient ids[i] occupies elements firsts[i]
// to firsts[i] + counts[i] - 1. The arrays are valid only during the call.
struct GradientBucket {
  Buffer buffer;           // uses the wire type if one is set
  std::size_t index = 0;   // launch order, from 0
  bool is_last = false;    // last bucket of the step
  void* stream = nullptr;  // CUDA stream on which the gradients are complete
  std::size_t gradients = 0;
  const std::int32_t* ids = nullptr;
  const std::uint64_t* firsts = nullptr;
  const std::uint64_t* counts = nullptr;
};

struct GradientSyncOptions {
  std::size_t first_bucket = std::size_t{1} << 20;  // bytes; small, so that reduction starts early
  std::size_t bucket_cap = 0;                       // bytes; 0 for 2 MiB on host, 25 MiB on GPU
  bool average = true;                              // if false, sum
  // Send f32 gradients as bf16 or f16, which halves the traffic.
  std::optional<DType> wire = {};
  // If true, gradients live in buckets (grad()). Otherwise, gradients live in the caller's memory
  // (bind()), and muster copies them into buckets and back.
  bool owns_memory = true;
  bool background = true;   // the communicator's thread reduces buckets, not mark_ready()
  bool has_unused = false;  // allow mark_unused(); costs a small operation per step
  bool reorder = true;      // after the first step, order buckets by when gradients become ready
  int device = kHost;       // CUDA ordinal: gradients live on that GPU
  // Processes a bucket in place, instead of the all-reduce. Called by mark_ready() on the same
  // thread, in the same order on all ranks. It may start one operation and return its Work.
  std::function<Result<Work>(const GradientBucket&)> hook = {};
};

struct GradientStats {
  std::size_t buckets = 0;  // 0 if this step only accumulated gradients
  std::size_t bytes = 0;    // total size of the gradients
  Duration exposed{};       // time spent in wait(), not overlapped with the backward pass
  bool moved = false;       // gradients have new addresses: call grad() again
};

}  // namespace v1
}  // namespace muster
