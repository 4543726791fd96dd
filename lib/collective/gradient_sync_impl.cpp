// SPDX-License-Identifier: Apache-2.0
#include "collective/gradient_sync_impl.hpp"

#include "base/clock.hpp"
#include "collective/kernels.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace muster::collective {

std::unexpected<Error> wrong_state(std::string text) {
  return failure(Errc::invalid_state, "GradientSync: " + std::move(text));
}

// Counts first, then a number for each parameter: the first that differs is named.
Result<void> GradientSync::Impl::compare_with_others() {
  const auto ranks = static_cast<std::size_t>(comm->size());
  const std::uint64_t count = parameters.size();
  std::vector<std::uint64_t> counts(ranks);
  auto done = comm->all_gather({&count, 1, DType::u64}, {counts.data(), ranks, DType::u64});
  if (!done) {
    return std::unexpected(done.error());
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (counts[rank] != count) {
      return failure(Errc::mismatch,
                     fmt::format("GradientSync: rank {} has {} parameters, rank {} has {}",
                                 comm->rank(),
                                 count,
                                 rank,
                                 counts[rank]));
    }
  }
  // The last number is that of the options, which decide the plan as well.
  std::vector<std::uint64_t> mine;
  mine.reserve(parameters.size() + 1);
  for (const GradientParameter& parameter : parameters) {
    mine.push_back(hash_of(parameter));
  }
  const GradientParameter settings{
      fmt::format("first {} cap {} average {} wire {} unused {} reorder {}",
                  options.buckets.first,
                  options.buckets.cap,
                  options.average,
                  options.wire ? name_of(*options.wire) : "",
                  options.has_unused,
                  options.reorder),
      DType::f32,
      0};
  mine.push_back(hash_of(settings));
  std::vector<std::uint64_t> all(ranks * mine.size());
  done = comm->all_gather({mine.data(), mine.size(), DType::u64},
                          {all.data(), all.size(), DType::u64});
  if (!done) {
    return std::unexpected(done.error());
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t which = i % mine.size();
    if (all[i] != mine[which]) {
      const std::string what = which == count ? "the options (" + settings.name + ")"
                                              : fmt::format("parameter {} '{}' {}[{}]",
                                                            which,
                                                            parameters[which].name,
                                                            name_of(parameters[which].dtype),
                                                            parameters[which].count);
      return failure(Errc::mismatch,
                     fmt::format("GradientSync: {} of rank {} is not the same on rank {}",
                                 what,
                                 comm->rank(),
                                 i / mine.size()));
    }
  }
  return {};
}

Result<std::vector<BucketMemory>> GradientSync::Impl::allocate(Communicator& from) const {
  std::vector<BucketMemory> out;
  for (const GradientBucket& bucket : plan.buckets) {
    BucketMemory made;
    auto data = from.alloc(bucket.count * size_of(bucket.dtype), options.device);
    if (!data) {
      release(from, out);
      return std::unexpected(data.error());
    }
    made.data = *data;
    if (options.wire) {
      made.wire.resize(bucket.count * size_of(*options.wire));
    }
    out.push_back(std::move(made));
  }
  return out;
}

void GradientSync::Impl::release(Communicator& from, std::vector<BucketMemory>& what) const {
  for (BucketMemory& bucket : what) {
    // A failed operation has ended too; memory of a communicator that is dead is still its own.
    [[maybe_unused]] const auto ended = bucket.work.wait();
    [[maybe_unused]] const auto freed = from.free(bucket.data);
  }
  what.clear();
}

Result<void> GradientSync::Impl::check_id(int id) const {
  if (!is_final) {
    return wrong_state("finalize was not called");
  }
  if (id < 0 || static_cast<std::size_t>(id) >= parameters.size()) {
    return failure(
        Errc::invalid_argument,
        fmt::format("GradientSync: there is no gradient {} among {}", id, parameters.size()));
  }
  return {};
}

Result<void> GradientSync::Impl::mark(int id, void* stream, bool is_used) {
  if (auto known = check_id(id); !known) {
    return known;
  }
  const auto i = static_cast<std::size_t>(id);
  const std::scoped_lock lock(mutex);
  if (!in_step) {
    return wrong_state(fmt::format("'{}' was marked outside of a step", parameters[i].name));
  }
  if (marked[i]) {
    return wrong_state(fmt::format("'{}' was marked twice in a step", parameters[i].name));
  }
  if (synchronizes && !options.owns_memory && bound[i] == nullptr) {
    return wrong_state(fmt::format("'{}' has no memory: bind it", parameters[i].name));
  }
  marked[i] = true;
  if (!synchronizes) {
    return {};
  }
  order.push_back(id);
  uses[i] = is_used ? 1 : 0;
  if (!is_used && options.device == kHost) {
    std::memset(at(memory, plan, id), 0, bytes(id));
  } else if (!options.owns_memory) {
    std::memcpy(at(memory, plan, id), bound[i], bytes(id));
  }
  memory[static_cast<std::size_t>(plan.places[i].bucket)].missing -= 1;
  return launch_ready(stream);
}

// In the order of buckets only: so all ranks call the same operations in the same order.
Result<void> GradientSync::Impl::launch_ready(void* stream) {
  while (next < memory.size() && memory[next].missing == 0) {
    auto work = launch(next, stream);
    if (!work) {
      unlaunched = work.error();
      return std::unexpected(work.error());
    }
    memory[next].work = std::move(*work);
    ++next;
  }
  return {};
}

Result<Work> GradientSync::Impl::launch(std::size_t bucket, void* stream) {
  const GradientBucket& what = plan.buckets[bucket];
  BucketMemory& where = memory[bucket];
  Buffer buffer{where.data, what.count, what.dtype, options.device};
  if (options.wire) {
    narrow(*options.wire, static_cast<const float*>(where.data), where.wire.data(), what.count);
    buffer.data = where.wire.data();
    buffer.dtype = *options.wire;
  }
  if (options.hook) {
    return options.hook(*comm, buffer);
  }
  return comm->all_reduce(buffer,
                          buffer,
                          options.average ? Op::avg : Op::sum,
                          {.stream = stream, .async = options.background});
}

Result<void> GradientSync::Impl::finish(std::size_t bucket) {
  BucketMemory& where = memory[bucket];
  if (auto done = where.work.wait(); !done) {
    return done;
  }
  if (options.wire) {
    widen(*options.wire,
          where.wire.data(),
          static_cast<float*>(where.data),
          plan.buckets[bucket].count);
  }
  return {};
}

std::string GradientSync::Impl::unmarked() const {
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (!marked[i] && ++count <= 8) {
      names += (names.empty() ? "'" : ", '") + parameters[i].name + "'";
    }
  }
  return count == 0 ? ""
                    : fmt::format("{} gradients were not marked in this step: {}{}",
                                  count,
                                  names,
                                  count > 8 ? ", …" : "");
}

Result<void> GradientSync::Impl::exchange_used() {
  if (!options.has_unused) {
    return {};
  }
  const Buffer buffer{uses.data(), uses.size(), DType::u8};
  auto done = comm->all_reduce(buffer, buffer, Op::max);
  return done ? done->wait() : std::unexpected(done.error());
}

Result<GradientStats> GradientSync::Impl::end_step(
    const std::function<Result<void>(std::size_t)>& end) {
  const std::scoped_lock lock(mutex);
  if (!in_step) {
    return wrong_state("wait, but no step was begun");
  }
  if (synchronizes) {
    if (const std::string names = unmarked(); !names.empty()) {
      return wrong_state(names);
    }
  }
  in_step = false;
  GradientStats stats;
  if (!synchronizes) {
    return stats;
  }
  if (unlaunched) {
    for (const BucketMemory& bucket : memory) {
      [[maybe_unused]] const auto ended = bucket.work.wait();
    }
    return std::unexpected(*std::exchange(unlaunched, std::nullopt));
  }
  const TimePoint begun = steady_now();
  for (std::size_t b = 0; b < memory.size(); ++b) {
    if (auto done = end(b); !done) {
      return std::unexpected(done.error());
    }
    stats.bytes += plan.buckets[b].count * size_of(plan.buckets[b].dtype);
  }
  if (auto done = exchange_used(); !done) {
    return std::unexpected(done.error());
  }
  for (std::size_t b = 0; !options.owns_memory && b < memory.size(); ++b) {
    copy_out(b);
  }
  stats.exposed = steady_now() - begun;
  stats.buckets = memory.size();
  if (options.reorder && std::exchange(may_reorder, false)) {
    auto moved = reorder();
    if (!moved) {
      return std::unexpected(moved.error());
    }
    stats.moved = *moved;
  }
  return stats;
}

// What no rank used stays as it was.
void GradientSync::Impl::copy_out(std::size_t bucket) {
  for (const int id : plan.buckets[bucket].parameters) {
    const auto i = static_cast<std::size_t>(id);
    if (uses[i] != 0) {
      std::memcpy(bound[i], at(memory, plan, id), bytes(id));
    }
  }
}

// Once: buckets in the order in which rank 0's gradients were ready.
Result<bool> GradientSync::Impl::reorder() {
  std::vector<std::int32_t> first(order.begin(), order.end());
  auto told = comm->broadcast({first.data(), first.size(), DType::i32}, 0);
  if (!told) {
    return std::unexpected(told.error());
  }
  GradientPlan better = plan_gradients(parameters, {first.begin(), first.end()}, options.buckets);
  if (better == plan || options.device != kHost) {
    return false;  // on GPUs the sums may not be there yet: buckets stay as they are
  }
  std::swap(plan, better);  // `better` is the old one now
  auto allocated = allocate(*comm);
  if (!allocated) {
    return std::unexpected(allocated.error());
  }
  for (int id = 0; id < static_cast<int>(parameters.size()); ++id) {
    std::memcpy(at(*allocated, plan, id), at(memory, better, id), bytes(id));
  }
  release(*comm, memory);
  memory = std::move(*allocated);
  return true;
}

}  // namespace muster::collective
