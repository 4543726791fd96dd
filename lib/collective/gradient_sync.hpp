// SPDX-License-Identifier: Apache-2.0
// GradientSync: sums the gradients of a training step over all ranks while the backward pass is
// still running. Register gradients once, in forward order. In each step call begin(), mark_ready()
// for every gradient (from any thread), then wait(). Buckets are launched in a fixed order, so
// results are bitwise identical for every bucket size. Resource type; the communicator must outlive
// it unless rebind() replaces it.
#pragma once

#include "collective/communicator.hpp"
#include "collective/gradient_plan.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::collective {

struct GradientSlice {
  int id = 0;
  std::size_t first = 0;  // first element in the bucket
  std::size_t count = 0;

  bool operator==(const GradientSlice&) const = default;
};

// A bucket of complete gradients, as passed to a hook.
struct GradientBucketView {
  Buffer buffer;           // uses the wire type if one is set; includes padding
  std::size_t index = 0;   // launch order, from 0
  bool is_last = false;    // last bucket of the step
  void* stream = nullptr;  // CUDA stream on which the gradients are complete
  std::vector<GradientSlice> gradients;
};

struct GradientSyncOptions {
  BucketLimits buckets = {};
  bool average = true;  // false: sum
  // Send f32 gradients as bf16 or f16, which halves the traffic. The host sums in f32 and rounds
  // once; on GPUs NCCL sums in the wire type.
  std::optional<DType> wire = {};
  // Processes a bucket in place, instead of the all-reduce; the library does not modify the hook's
  // result. On GPUs the hook's work must start after `stream`, and wait() waits for the Work that
  // the hook returns.
  std::function<Result<Work>(Communicator&, const GradientBucketView&)> hook = {};
  // If true, gradients live in buckets (grad()). Otherwise, gradients live in the caller's memory
  // (bind()), and muster copies them into buckets and back.
  bool owns_memory = true;
  // If true, the communicator's thread reduces buckets during the backward pass. Otherwise,
  // mark_ready() reduces them.
  bool background = true;
  // Allow steps that do not use some gradients (mark_unused). Adds a small operation to each step.
  bool has_unused = false;
  // After the first step, order buckets by when gradients became ready on rank 0.
  bool reorder = true;
  int device = kHost;
};

struct GradientStats {
  std::size_t buckets = 0;
  std::size_t bytes = 0;  // total size of the gradients
  Duration exposed{};     // time spent in wait(), not overlapped with the backward pass
  bool moved = false;     // buckets were rebuilt: call grad() again
};

class GradientSync {
 public:
  explicit GradientSync(Communicator& communicator, GradientSyncOptions options = {});
  GradientSync(GradientSync&& other) noexcept;
  GradientSync& operator=(GradientSync&& other) noexcept;
  ~GradientSync();

  // Returns the gradient's number, from 0. Call before finalize().
  [[nodiscard]] Result<int> add(std::string name, DType dtype, std::size_t count);
  // Collective. Error: mismatch; the text names the parameter and the rank that differ.
  [[nodiscard]] Result<void> finalize();

  // The gradient's memory, initially zero. It may move: see GradientStats::moved.
  [[nodiscard]] Result<void*> grad(int id) const;
  // Sets the caller's memory for a gradient, on the same device, until the next bind(). On GPUs
  // the memory is read on the stream passed to mark_ready(). The sum is written on the stream
  // passed to wait_stream(), or before wait() returns.
  [[nodiscard]] Result<void> bind(int id, void* memory);

  // If false, this step only accumulates and sends nothing.
  [[nodiscard]] Result<void> begin(bool synchronize = true);
  // Marks the gradient as complete (on GPUs: on `stream`; use one stream per step). Marking the
  // last gradient of a bucket launches that bucket, and any later full buckets that had to wait
  // for it. Errors: invalid_state if the gradient was already marked in this step,
  // invalid_argument if the stream differs.
  [[nodiscard]] Result<void> mark_ready(int id, void* stream = nullptr);
  // Marks the gradient as unused in this step. It counts as zeros (written on `stream`), or as the
  // value accumulated by accumulate-only steps since the last sum.
  [[nodiscard]] Result<void> mark_unused(int id, void* stream = nullptr);
  // Waits until all gradients are summed. Errors: invalid_state, naming unmarked gradients; errors
  // of the operations; timeout if `timeout` (0 for none) expires first. After a timeout the step
  // continues, and wait() may be called again.
  [[nodiscard]] Result<GradientStats> wait(Duration timeout = Duration::zero());
  // For gradients on a GPU: makes later work on `stream` wait for the sums. The host does not wait.
  [[nodiscard]] Result<GradientStats> wait_stream(void* stream);

  // Whether any rank used the gradient in the last step; always true without has_unused.
  [[nodiscard]] bool used(int id) const;
  // Zeroes all gradients, including accumulated values; on GPUs the work is queued on `stream`.
  // Can fail only on GPUs.
  Result<void> zero(void* stream = nullptr);

  // After a failure or a change in the number of ranks: moves the gradients and their values to
  // the new communicator (call grad() again). The old communicator must still exist during the
  // call. On GPUs, the work on gradients that the caller has queued on its streams must be
  // complete.
  [[nodiscard]] Result<void> rebind(Communicator& communicator);

  [[nodiscard]] const GradientPlan& plan() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::collective
