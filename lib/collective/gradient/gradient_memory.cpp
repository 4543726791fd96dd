// SPDX-License-Identifier: Apache-2.0
// GradientSync memory: buckets, wire buffers and the caller's own gradients.
#include "collective/gradient/gradient_sync_impl.hpp"
#include "collective/kernels/kernels.hpp"
#include "collective/transport/gradient_support.hpp"

#include <cstring>
#include <utility>

namespace muster::collective {

GradientSync::Impl::~Impl() {
  if (in_step && step_stream) {
    hold(*step_stream);
  }
  release(*comm, memory);
}

Result<void> GradientSync::Impl::open_queue() {
  if (!on_gpu()) {
    return {};
  }
  auto made = comm->gradient_support().make_queue(options.device);
  MUSTER_RETURN_IF_ERROR(made);
  queue = *std::move(made);
  return options.wire ? queue->load_casts() : Result<void>();
}

Result<std::vector<BucketMemory>> GradientSync::Impl::allocate(Communicator& from) const {
  std::vector<BucketMemory> out;
  const auto take = [&](std::size_t bytes, void*& where) -> Result<void> {
    auto data = from.alloc(bytes, options.device);
    if (!data) {
      release(from, out);
      return std::unexpected(data.error());
    }
    where = *data;
    return {};
  };
  for (const GradientBucket& bucket : plan.buckets) {
    BucketMemory& made = out.emplace_back();
    auto taken = take(bucket.count * size_of(bucket.dtype), made.data);
    if (taken && options.wire) {
      taken = take(bucket.count * size_of(*options.wire), made.wire);
    }
    MUSTER_RETURN_IF_ERROR(taken);
  }
  return out;
}

// Waiting is safe, because a failed operation counts as finished and a dead communicator still
// owns its memory.
void GradientSync::Impl::release(Communicator& from, std::vector<BucketMemory>& what) const {
  for (const BucketMemory& bucket : what) {
    [[maybe_unused]] const auto ended = bucket.work.wait();
  }
  if (queue) {
    [[maybe_unused]] const auto settled = queue->settle(own_stream());
  }
  for (const BucketMemory& bucket : what) {
    for (void* const memory_of : {bucket.data, bucket.wire}) {
      if (memory_of != nullptr) {
        [[maybe_unused]] const auto freed = from.free(memory_of);
      }
    }
  }
  what.clear();
}

void GradientSync::Impl::hold(void* stream) const {
  if (queue) {
    [[maybe_unused]] const auto held = queue->follow(own_stream(), stream);
  }
}

Result<void> GradientSync::Impl::copy(void* to,
                                      const void* from,
                                      std::size_t bytes,
                                      void* stream) const {
  if (queue) {
    return queue->copy(to, from, bytes, stream);
  }
  std::memcpy(to, from, bytes);
  return {};
}

Result<void> GradientSync::Impl::clear(void* what, std::size_t bytes, void* stream) const {
  if (queue) {
    return queue->fill_zero(what, bytes, stream);
  }
  std::memset(what, 0, bytes);
  return {};
}

Result<void> GradientSync::Impl::fill(int id, void* stream) {
  const auto i = static_cast<std::size_t>(id);
  void* const place = at(memory, plan, id);
  if (uses[i] == 0) {
    return clear(place, bytes(id), stream);
  }
  return options.owns_memory ? Result<void>() : copy(place, bound[i], bytes(id), stream);
}

Result<void> GradientSync::Impl::to_wire(std::size_t bucket, void* stream) {
  const BucketMemory& where = memory[bucket];
  const std::size_t count = plan.buckets[bucket].count;
  if (queue) {
    return queue->narrow(*options.wire, where.data, where.wire, count, stream);
  }
  narrow(*options.wire, static_cast<const float*>(where.data), where.wire, count);
  return {};
}

Result<void> GradientSync::Impl::from_wire(std::size_t bucket, void* stream) {
  const BucketMemory& where = memory[bucket];
  const std::size_t count = plan.buckets[bucket].count;
  if (queue) {
    return queue->widen(*options.wire, where.wire, where.data, count, stream);
  }
  widen(*options.wire, where.wire, static_cast<float*>(where.data), count);
  return {};
}

// A gradient that no rank used keeps its value.
Result<void> GradientSync::Impl::copy_out(std::size_t bucket, void* stream) {
  for (const int id : plan.buckets[bucket].parameters) {
    const auto i = static_cast<std::size_t>(id);
    if (uses[i] == 0) {
      continue;
    }
    if (auto copied = copy(bound[i], at(memory, plan, id), bytes(id), stream); !copied) {
      return copied;
    }
  }
  return {};
}

// On a GPU the sums may still be in progress, so `stream` waits for them and the host waits for
// `stream`.
Result<void> GradientSync::Impl::move_to(Communicator& before, GradientPlan better, void* stream) {
  const GradientPlan old = std::exchange(plan, std::move(better));
  auto allocated = allocate(*comm);
  if (!allocated) {
    plan = old;
    return std::unexpected(allocated.error());
  }
  Result<void> copied;
  for (int id = 0; copied && id < static_cast<int>(parameters.size()); ++id) {
    copied = copy(at(*allocated, plan, id), at(memory, old, id), bytes(id), stream);
  }
  if (copied && queue) {
    copied = queue->settle(stream);
  }
  if (!copied) {
    plan = old;
    release(*comm, *allocated);
    return copied;
  }
  release(before, memory);
  memory = std::move(*allocated);
  return {};
}

}  // namespace muster::collective
