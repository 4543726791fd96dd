// SPDX-License-Identifier: Apache-2.0
// What a GradientSync is made of: the steps (gradient_sync_impl.cpp) and the memory
// (gradient_memory.cpp). Private to these.
#pragma once

#include "collective/gradient_sync.hpp"
#include "collective/transport/device_queue.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace muster::collective {

struct BucketMemory {
  void* data = nullptr;
  void* wire = nullptr;  // what is sent, if not the data itself
  Work work;
  std::size_t missing = 0;  // gradients that are not marked
};

[[nodiscard]] std::unexpected<Error> wrong_state(std::string text);

class GradientSync::Impl {
 public:
  Impl(Communicator& communicator, GradientSyncOptions given)
      : comm(&communicator), options(std::move(given)) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl();

  // Steps.
  [[nodiscard]] Result<void> compare_with_others();
  [[nodiscard]] Result<void> check_id(int id) const;
  [[nodiscard]] Result<void> mark(int id, void* stream, bool is_used);
  // On a GPU: whether it is that of the step.
  [[nodiscard]] Result<void> take_stream(std::size_t parameter, void* stream);
  [[nodiscard]] Result<void> launch_ready(void* stream);
  [[nodiscard]] Result<Work> launch(std::size_t bucket, void* stream);
  [[nodiscard]] GradientBucketView view(std::size_t bucket,
                                        const Buffer& buffer,
                                        void* stream) const;
  using EndOfBucket = std::function<Result<void>(std::size_t bucket)>;
  // `stream` sees the sums; for the host that is our own.
  [[nodiscard]] Result<GradientStats> end_step(const EndOfBucket& end, void* stream);
  [[nodiscard]] Result<GradientStats> end_sums(const EndOfBucket& end, void* stream);
  [[nodiscard]] Result<void> finish(std::size_t bucket, TimePoint until);
  [[nodiscard]] Result<void> finish_on(std::size_t bucket, void* stream);
  [[nodiscard]] Result<GradientStats> summed(TimePoint begun, void* stream);
  [[nodiscard]] Result<void> exchange_used();
  [[nodiscard]] Result<bool> reorder(void* stream);
  [[nodiscard]] std::string unmarked() const;

  // Memory. On a GPU all is queued on the stream.
  [[nodiscard]] Result<void> open_queue();
  [[nodiscard]] Result<std::vector<BucketMemory>> allocate(Communicator& from) const;
  void release(Communicator& from, std::vector<BucketMemory>& what) const;
  // No bucket is given back before the GPU has done what this stream was given.
  void hold(void* stream) const;
  [[nodiscard]] Result<void> copy(void* to,
                                  const void* from,
                                  std::size_t bytes,
                                  void* stream) const;
  [[nodiscard]] Result<void> clear(void* what, std::size_t bytes, void* stream) const;
  // The gradient's part of its bucket, where it does not lie there by itself.
  [[nodiscard]] Result<void> fill(int id, void* stream);
  [[nodiscard]] Result<void> to_wire(std::size_t bucket, void* stream);
  [[nodiscard]] Result<void> from_wire(std::size_t bucket, void* stream);
  [[nodiscard]] Result<void> copy_out(std::size_t bucket, void* stream);
  // New buckets of the communicator, with the values of those of `before`, which are given back.
  [[nodiscard]] Result<void> move_to(Communicator& before, GradientPlan better, void* stream);

  [[nodiscard]] bool on_gpu() const { return options.device != kHost; }

  [[nodiscard]] void* own_stream() const { return queue ? queue->own_stream() : nullptr; }

  // Behind each sum, beside the backward pass. A hook's work may be known to the caller only.
  [[nodiscard]] bool widens_at_launch() const { return queue && options.wire && !options.hook; }

  [[nodiscard]] char* at(const std::vector<BucketMemory>& where,
                         const GradientPlan& by,
                         int id) const {
    const GradientPlace& place = by.places[static_cast<std::size_t>(id)];
    const DType dtype = parameters[static_cast<std::size_t>(id)].dtype;
    return static_cast<char*>(where[static_cast<std::size_t>(place.bucket)].data) +
           place.first * size_of(dtype);
  }

  [[nodiscard]] std::size_t bytes(int id) const {
    const GradientParameter& p = parameters[static_cast<std::size_t>(id)];
    return p.count * size_of(p.dtype);
  }

  Communicator* comm;
  GradientSyncOptions options;
  std::vector<GradientParameter> parameters;
  GradientPlan plan;
  std::vector<BucketMemory> memory;
  std::vector<void*> bound;
  std::unique_ptr<DeviceQueue> queue;  // on a GPU
  bool is_final = false;
  bool may_reorder = true;

  std::mutex mutex;  // of what follows
  bool in_step = false;
  bool synchronizes = false;
  std::vector<bool> marked;
  std::vector<bool> accumulated;     // in steps since the last sums
  std::optional<void*> step_stream;  // on a GPU: what the step's gradients are complete on
  std::vector<std::uint8_t> uses;
  std::vector<int> order;           // as gradients became ready
  std::size_t next = 0;             // bucket to launch
  std::optional<Error> unlaunched;  // why it was not: mark_ready said so, wait says it again
};

}  // namespace muster::collective
