// SPDX-License-Identifier: Apache-2.0
// GradientSync: sums the gradients of a training step over all ranks while the backward pass is
// still running. Register gradients once, in forward order. In each step call begin(), mark_ready()
// for every gradient, then wait(). Buckets are launched in a fixed order, so results are bitwise
// identical for every bucket size. A C++17 wrapper for the C interface (gradient_sync.h).
//
// Threads: any thread may call mark_ready and mark_unused; only one thread at a time may call the
// others. The communicator must outlive this object unless rebind() replaces it.
#pragma once

#include "muster/collective.hpp"
#include "muster/gradient_options.hpp"
#include "muster/gradient_sync.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace muster {
inline namespace v1 {

class GradientSync {
 public:
  [[nodiscard]] static Result<GradientSync> create(Communicator& communicator,
                                                   GradientSyncOptions options = {}) {
    GradientSync sync;
    sync.hook_ = std::make_unique<Hook>(std::move(options.hook));
    const muster_gradients_options o = in_c(options, sync.hook_.get());
    muster_gradients* made = nullptr;
    if (muster_gradients_create(communicator.get(), &o, &made) != 0) {
      return detail::last_error();
    }
    sync.gradients_.reset(made);
    return Result<GradientSync>(std::move(sync));
  }

  // Returns the gradient's number, from 0. Call before finalize().
  [[nodiscard]] Result<int> add(const std::string& name, DType dtype, std::size_t count) {
    int id = 0;
    if (muster_gradients_add(get(), name.c_str(), static_cast<int>(dtype), count, &id) != 0) {
      return detail::last_error();
    }
    return id;
  }

  // Collective. Error: mismatch; the text names the gradient and the rank that differ.
  Result<void> finalize() { return detail::result_of(muster_gradients_finalize(get())); }

  // The gradient's memory, initially zero. It may move: see GradientStats::moved.
  [[nodiscard]] Result<void*> grad(int id) {
    void* memory = nullptr;
    if (muster_gradients_grad(get(), id, &memory) != 0) {
      return detail::last_error();
    }
    return memory;
  }

  // Sets the caller's memory for a gradient (owns_memory = false only).
  Result<void> bind(int id, void* memory) {
    return detail::result_of(muster_gradients_bind(get(), id, memory));
  }

  // If false, this step only accumulates and sends nothing.
  Result<void> begin(bool synchronize = true) {
    return detail::result_of(muster_gradients_begin(get(), synchronize ? 1 : 0));
  }

  // Marks the gradient as complete (on GPUs: on `stream`; use one stream per step).
  Result<void> mark_ready(int id, void* stream = nullptr) {
    return detail::result_of(muster_gradients_mark_ready(get(), id, stream));
  }

  // Marks the gradient as unused in this step; it counts as zeros.
  Result<void> mark_unused(int id, void* stream = nullptr) {
    return detail::result_of(muster_gradients_mark_unused_on(get(), id, stream));
  }

  // Waits until all gradients are summed. If `timeout` (0 for none) expires, returns Errc::timeout;
  // the step continues, and wait() may be called again.
  Result<GradientStats> wait(Duration timeout = Duration::zero()) {
    muster_gradients_stats stats = empty_stats();
    const int code = muster_gradients_wait_for(get(), timeout.count(), &stats);
    return given(code, stats);
  }

  // On GPUs: makes later work on this CUDA stream wait for the sums. The host does not wait.
  Result<GradientStats> wait_stream(void* stream) {
    muster_gradients_stats stats = empty_stats();
    const int code = muster_gradients_wait_stream(get(), stream, &stats);
    return given(code, stats);
  }

  // Whether any rank used the gradient in the last step; always true without has_unused.
  [[nodiscard]] bool used(int id) const { return muster_gradients_used(get(), id) == 1; }

  // Zeroes all gradients; on GPUs, queued on `stream`.
  Result<void> zero(void* stream = nullptr) {
    return detail::result_of(muster_gradients_zero_on(get(), stream));
  }

  // After a failure: moves the gradients to another communicator. Their values are kept, but their
  // addresses change. The old communicator must still exist during this call.
  Result<void> rebind(Communicator& communicator) {
    return detail::result_of(muster_gradients_rebind(get(), communicator.get()));
  }

  [[nodiscard]] muster_gradients* get() const { return gradients_.get(); }

 private:
  using Hook = std::function<Result<Work>(const GradientBucket&)>;

  struct Free {
    void operator()(muster_gradients* gradients) const { muster_gradients_free(gradients); }
  };

  GradientSync() = default;

  static int call_hook(void* context,
                       muster_comm* /*comm*/,
                       const muster_gradients_bucket* given,
                       muster_work** work) {
    const muster_buffer& b = given->buffer;
    GradientBucket bucket;
    bucket.buffer = Buffer(b.data, b.count, static_cast<DType>(b.dtype), b.device);
    bucket.index = given->index;
    bucket.is_last = given->is_last != 0;
    bucket.stream = given->stream;
    bucket.gradients = given->gradients;
    bucket.ids = given->ids;
    bucket.firsts = given->firsts;
    bucket.counts = given->counts;
    Result<Work> done = (*static_cast<Hook*>(context))(bucket);
    if (!done) {
      return static_cast<int>(done.error().code);
    }
    *work = done->release();
    return 0;
  }

  static std::int32_t in_c(bool on) { return on ? MUSTER_ON : MUSTER_OFF; }

  static muster_gradients_options in_c(const GradientSyncOptions& options, Hook* hook) {
    muster_gradients_options o{};
    o.size = sizeof(o);
    o.first_bucket = options.first_bucket;
    o.bucket_cap = options.bucket_cap;
    o.average = in_c(options.average);
    o.wire = options.wire ? static_cast<std::int32_t>(*options.wire) : 0;
    o.owns_memory = in_c(options.owns_memory);
    o.background = in_c(options.background);
    o.has_unused = in_c(options.has_unused);
    o.reorder = in_c(options.reorder);
    o.on_gpu = options.device == kHost ? 0 : 1;
    o.device = options.device == kHost ? 0 : options.device;
    o.context = hook;
    o.bucket_hook = *hook ? &call_hook : nullptr;
    return o;
  }

  static muster_gradients_stats empty_stats() {
    muster_gradients_stats stats{};
    stats.size = sizeof(stats);
    return stats;
  }

  static Result<GradientStats> given(int code, const muster_gradients_stats& stats) {
    if (code != 0) {
      return detail::last_error();
    }
    GradientStats out;
    out.buckets = stats.buckets;
    out.bytes = stats.bytes;
    out.exposed = Duration(stats.exposed_ns);
    out.moved = stats.moved != 0;
    return out;
  }

  std::unique_ptr<Hook> hook_;  // must outlive gradients_, which calls it
  std::unique_ptr<muster_gradients, Free> gradients_;
};

}  // namespace v1
}  // namespace muster
