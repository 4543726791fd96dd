// SPDX-License-Identifier: Apache-2.0
// The implementation of GradientSync: steps (gradient_sync_impl.cpp) and memory
// (gradient_memory.cpp). Private to these files.
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
  void* wire = nullptr;  // copy of `data` in the wire type; null if `data` itself is sent
  Work work;
  std::size_t missing = 0;  // gradients not yet marked
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
  // On a GPU: checks that `stream` is the step's stream.
  [[nodiscard]] Result<void> take_stream(std::size_t parameter, void* stream);
  [[nodiscard]] Result<void> launch_ready(void* stream);
  [[nodiscard]] Result<Work> launch(std::size_t bucket, void* stream);
  [[nodiscard]] GradientBucketView view(std::size_t bucket,
                                        const Buffer& buffer,
                                        void* stream) const;
  using EndOfBucket = std::function<Result<void>(std::size_t bucket)>;
  // Makes `stream` wait for the sums. To wait on the host, pass our own stream.
  [[nodiscard]] Result<GradientStats> end_step(const EndOfBucket& end, void* stream);
  [[nodiscard]] Result<GradientStats> end_sums(const EndOfBucket& end, void* stream);
  [[nodiscard]] Result<void> finish(std::size_t bucket, TimePoint until);
  [[nodiscard]] Result<void> finish_on(std::size_t bucket, void* stream);
  [[nodiscard]] Result<GradientStats> summed(TimePoint begun, void* stream);
  [[nodiscard]] Result<void> exchange_used();
  [[nodiscard]] Result<bool> reorder(void* stream);
  [[nodiscard]] std::string unmarked() const;

  // Memory. On a GPU, all work is queued on the stream.
  [[nodiscard]] Result<void> open_queue();
  [[nodiscard]] Result<std::vector<BucketMemory>> allocate(Communicator& from) const;
  void release(Communicator& from, std::vector<BucketMemory>& what) const;
  // Keeps buckets allocated until the GPU has finished the work queued on this stream.
  void hold(void* stream) const;
  [[nodiscard]] Result<void> copy(void* to,
                                  const void* from,
                                  std::size_t bytes,
                                  void* stream) const;
  [[nodiscard]] Result<void> clear(void* what, std::size_t bytes, void* stream) const;
  // Copies the gradient into its bucket if it does not live there already.
  [[nodiscard]] Result<void> fill(int id, void* stream);
  [[nodiscard]] Result<void> to_wire(std::size_t bucket, void* stream);
  [[nodiscard]] Result<void> from_wire(std::size_t bucket, void* stream);
  [[nodiscard]] Result<void> copy_out(std::size_t bucket, void* stream);
  // Allocates buckets from the new communicator, copies the values and frees the buckets of
  // `before`.
  [[nodiscard]] Result<void> move_to(Communicator& before, GradientPlan better, void* stream);

  [[nodiscard]] bool on_gpu() const { return options.device != kHost; }

  [[nodiscard]] void* own_stream() const { return queue ? queue->own_stream() : nullptr; }

  // Whether to widen each bucket right after its sum, during the backward pass. Not possible with a
  // hook, because only the hook knows which work it started.
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
  std::unique_ptr<DeviceQueue> queue;  // GPU only
  bool is_final = false;
  bool may_reorder = true;

  std::mutex mutex;  // guards the members below
  bool in_step = false;
  bool synchronizes = false;
  std::vector<bool> marked;
  std::vector<bool> accumulated;     // accumulated in steps since the last sum
  std::optional<void*> step_stream;  // GPU only: stream on which gradients are complete
  std::vector<std::uint8_t> uses;
  std::vector<int> order;           // order of readiness
  std::size_t next = 0;             // next bucket to launch
  std::optional<Error> unlaunched;  // returned by mark_ready, then again by wait
};

}  // namespace muster::collective
