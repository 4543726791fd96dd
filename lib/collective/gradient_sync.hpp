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

struct GradientSyncOptions {
  BucketLimits buckets = {};
  bool average = true;  // else the sum
  // f32 gradients travel as bf16 or f16: half the bytes, summed in f32 and rounded once.
  std::optional<DType> wire = {};
  // Performs a bucket instead of the all-reduce, in place; its result is used as it is.
  std::function<Result<Work>(Communicator&, Buffer)> hook = {};
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

class MUSTER_COLLECTIVE_API GradientSync {
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
  [[nodiscard]] Result<void> bind(int id, void* memory);

  // false: this step only accumulates, nothing is sent.
  [[nodiscard]] Result<void> begin(bool synchronize = true);
  // The gradient is complete (on `stream`, the same for all). The last of a bucket launches it and
  // those that waited for it. Error: invalid_state if it was marked in this step already.
  [[nodiscard]] Result<void> mark_ready(int id, void* stream = nullptr);
  // It has no gradient in this step: it counts as zeros.
  [[nodiscard]] Result<void> mark_unused(int id);
  // Until all gradients are summed. Errors: invalid_state, naming those that were not marked; what
  // the operations met.
  [[nodiscard]] Result<GradientStats> wait();
  // Device gradients: work queued on `stream` from now on sees the sums; the host does not wait.
  [[nodiscard]] Result<GradientStats> wait_stream(void* stream);

  // Whether any rank used it in the last step; true without has_unused.
  [[nodiscard]] bool used(int id) const;
  // All gradients (on the host).
  void zero();

  // After a failure or with another number of ranks: host gradients move to the new communicator
  // with their values (ask grad() again). The old one is still there during the call.
  [[nodiscard]] Result<void> rebind(Communicator& communicator);

  [[nodiscard]] const GradientPlan& plan() const;

 private:
  class MUSTER_COLLECTIVE_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::collective
