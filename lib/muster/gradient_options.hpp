// SPDX-License-Identifier: Apache-2.0
// What GradientSync takes, what its hook gets, and what a step gives. Value types.
#pragma once

#include "muster/collective.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace muster {
inline namespace v1 {

// A bucket whose gradients are complete, as a hook gets it. Gradient ids[i] lies in elements
// firsts[i] to firsts[i] + counts[i] - 1; the arrays are there during the call.
struct GradientBucket {
  Buffer buffer;           // of the wire type, if there is one
  std::size_t index = 0;   // as launched, from 0
  bool is_last = false;    // of the step
  void* stream = nullptr;  // CUDA stream on which the gradients are complete
  std::size_t gradients = 0;
  const std::int32_t* ids = nullptr;
  const std::uint64_t* firsts = nullptr;
  const std::uint64_t* counts = nullptr;
};

struct GradientSyncOptions {
  std::size_t first_bucket = std::size_t{1} << 20;  // bytes: small, so that sums begin early
  std::size_t bucket_cap = 0;                       // bytes; 0: 2 MiB on the host, 25 MiB on GPUs
  bool average = true;                              // else the sum
  // f32 gradients travel as bf16 or f16: half the bytes.
  std::optional<DType> wire = {};
  // Gradients lie in buckets (grad()); else the caller's memory (bind()) is copied in and out.
  bool owns_memory = true;
  bool background = true;   // the communicator's thread performs buckets; else mark_ready() does
  bool has_unused = false;  // mark_unused() may be called; costs a small operation per step
  bool reorder = true;      // after the first step, buckets follow the order of readiness
  int device = kHost;       // CUDA ordinal: gradients lie on that GPU
  // Performs a bucket instead of the all-reduce, in place; called by mark_ready(), in its thread,
  // in the same order on all ranks. It may start one operation, and gives its Work.
  std::function<Result<Work>(const GradientBucket&)> hook = {};
};

struct GradientStats {
  std::size_t buckets = 0;  // 0: a step that only accumulated
  std::size_t bytes = 0;    // of the gradients
  Duration exposed{};       // in wait(): what the backward pass did not hide
  bool moved = false;       // gradients lie elsewhere now: ask grad() again
};

}  // namespace v1
}  // namespace muster
