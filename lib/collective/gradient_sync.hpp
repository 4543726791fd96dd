// SPDX-License-Identifier: Apache-2.0
// GradientSync: sums the gradients of a training step over all ranks while the backward pass still
// runs. Gradients are registered once, in the order of the forward pass; each step is begin(),
// mark_ready() for every gradient (any thread), wait(). Buckets are launched in a fixed order, so
// the result has the same bits for every bucket size. Resource type; it refers to the
// communicator, which outlives it or is replaced by rebind().
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
  std::size_t first = 0;  // element of the bucket
  std::size_t count = 0;

  bool operator==(const GradientSlice&) const = default;
};

// A bucket whose gradients are complete, as a hook gets it.
struct GradientBucketView {
  Buffer buffer;           // of the wire type, if there is one; with what lies between gradients
  std::size_t index = 0;   // as launched, from 0
  bool is_last = false;    // of the step
  void* stream = nullptr;  // CUDA stream on which they are complete
  std::vector<GradientSlice> gradients;
};

struct GradientSyncOptions {
  BucketLimits buckets = {};
  bool average = true;  // else the sum
  // f32 gradients travel as bf16 or f16: half the bytes. On the host summed in f32 and rounded
  // once, on GPUs summed by NCCL in that type.
  std::optional<DType> wire = {};
  // Performs a bucket instead of the all-reduce, in place; its result is used as it is. On GPUs it
  // starts after `stream`, and the Work that it gives is what the sums are waited for by.
  std::function<Result<Work>(Communicator&, const GradientBucketView&)> hook = {};
  // Gradients lie in buckets (grad()); else the caller's memory (bind()) is copied in and out.
  bool owns_memory = true;
  // The communicator's thread performs buckets beside the backward pass; else mark_ready() does.
  bool background = true;
  // Some gradients are not used in some steps (mark_unused); costs a small operation per step.
  bool has_unused = false;
  // After the first step, buckets follow the order in which rank 0's gradients became ready.
  bool reorder = true;
  int device = kHost;
};

struct GradientStats {
  std::size_t buckets = 0;
  std::size_t bytes = 0;  // of the gradients
  Duration exposed{};     // in wait(): what the backward pass did not hide
  bool moved = false;     // buckets were made anew: ask grad() again
};

class GradientSync {
 public:
  explicit GradientSync(Communicator& communicator, GradientSyncOptions options = {});
  GradientSync(GradientSync&& other) noexcept;
  GradientSync& operator=(GradientSync&& other) noexcept;
  ~GradientSync();

  // Gives the number of the gradient, from 0. Before finalize().
  [[nodiscard]] Result<int> add(std::string name, DType dtype, std::size_t count);
  // Called by all ranks. Error: mismatch, naming the parameter and the rank that differ.
  [[nodiscard]] Result<void> finalize();

  // The gradient's memory, zeroed at first; moves when GradientStats::moved says so.
  [[nodiscard]] Result<void*> grad(int id) const;
  // The caller's memory of a gradient, of the same device, until another one is bound. On GPUs read
  // on the stream of mark_ready; the sum is written on that of wait_stream, or before wait ends.
  [[nodiscard]] Result<void> bind(int id, void* memory);

  // false: this step only accumulates, nothing is sent.
  [[nodiscard]] Result<void> begin(bool synchronize = true);
  // The gradient is complete (on GPUs: on `stream`, the same for all of a step). The last of a
  // bucket launches it and those that waited for it. Errors: invalid_state if it was marked in this
  // step already, invalid_argument if on another stream than those before.
  [[nodiscard]] Result<void> mark_ready(int id, void* stream = nullptr);
  // It has no gradient in this step: it counts as zeros (written on `stream`), or as what steps
  // that only accumulated have made of it since the last sums.
  [[nodiscard]] Result<void> mark_unused(int id, void* stream = nullptr);
  // Until all gradients are summed. Errors: invalid_state, naming those that were not marked; what
  // the operations met; timeout if `timeout` (0: none) ends first: the step goes on, wait again.
  [[nodiscard]] Result<GradientStats> wait(Duration timeout = Duration::zero());
  // Device gradients: work queued on `stream` from now on sees the sums; the host does not wait.
  [[nodiscard]] Result<GradientStats> wait_stream(void* stream);

  // Whether any rank used it in the last step; true without has_unused.
  [[nodiscard]] bool used(int id) const;
  // All gradients, also what steps have accumulated; on GPUs queued on `stream`. Fails on GPUs
  // only.
  Result<void> zero(void* stream = nullptr);

  // After a failure or with another number of ranks: gradients move to the new communicator with
  // their values (ask grad() again). The old one is still there during the call; on GPUs, work of
  // the caller's streams on gradients has ended.
  [[nodiscard]] Result<void> rebind(Communicator& communicator);

  [[nodiscard]] const GradientPlan& plan() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::collective
