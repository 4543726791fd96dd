// SPDX-License-Identifier: Apache-2.0
#include "collective/gradient/gradient_sync_impl.hpp"

#include "base/clock.hpp"
#include "base/plural.hpp"
#include "collective/transport/gradient_support.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::collective {

std::unexpected<Error> wrong_state(std::string text) {
  return failure(Errc::invalid_state, "GradientSync: " + std::move(text));
}

// Compares the counts first, then one hash per parameter. The error names the first difference.
Result<void> GradientSync::Impl::compare_with_others() {
  const auto ranks = static_cast<std::size_t>(comm->size());
  const std::uint64_t count = parameters.size();
  std::vector<std::uint64_t> counts(ranks);
  auto done = comm->gradient_support().gather_all({&count, 1, DType::u64},
                                                  {counts.data(), ranks, DType::u64});
  MUSTER_RETURN_IF_ERROR(done);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (counts[rank] != count) {
      return failure(Errc::mismatch,
                     fmt::format("GradientSync: rank {} has {}, rank {} has {}",
                                 comm->rank(),
                                 counted(count, "parameter"),
                                 rank,
                                 counts[rank]));
    }
  }
  // The last hash covers the options, which also determine the plan.
  std::vector<std::uint64_t> mine;
  mine.reserve(parameters.size() + 1);
  for (const GradientParameter& parameter : parameters) {
    mine.push_back(hash_of(parameter));
  }
  const GradientParameter settings{
      fmt::format("on {}, {} hook, first {} cap {} average {} wire {} unused {} reorder {}",
                  on_gpu() ? "a GPU" : "the host",
                  options.hook ? "a" : "no",
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
  done = comm->gradient_support().gather_all({mine.data(), mine.size(), DType::u64},
                                             {all.data(), all.size(), DType::u64});
  MUSTER_RETURN_IF_ERROR(done);
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
                     fmt::format("GradientSync: {} on rank {} {} on rank {}",
                                 what,
                                 comm->rank(),
                                 which == count ? "differ from those" : "differs from that",
                                 i / mine.size()));
    }
  }
  return {};
}

Result<void> GradientSync::Impl::check_id(int id) const {
  if (!is_final) {
    return wrong_state("finalize was not called");
  }
  if (id < 0 || static_cast<std::size_t>(id) >= parameters.size()) {
    return failure(Errc::invalid_argument,
                   fmt::format("GradientSync: there is no gradient {}: {} {} added",
                               id,
                               counted(parameters.size(), "gradient"),
                               agreeing(parameters.size(), "was", "were")));
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
    return wrong_state(
        fmt::format("'{}' has no buffer yet: call bind() first", parameters[i].name));
  }
  if (!synchronizes) {
    marked[i] = true;
    accumulated[i] = accumulated[i] || is_used;
    return {};
  }
  if (auto same = take_stream(i, stream); !same) {
    return same;
  }
  marked[i] = true;
  order.push_back(id);
  uses[i] = is_used || accumulated[i] ? 1 : 0;
  if (auto filled = fill(id, stream); !filled) {
    unlaunched = filled.error();
    return filled;
  }
  memory[static_cast<std::size_t>(plan.places[i].bucket)].missing -= 1;
  return launch_ready(stream);
}

Result<void> GradientSync::Impl::take_stream(std::size_t parameter, void* stream) {
  if (on_gpu() && step_stream.value_or(stream) != stream) {
    return failure(
        Errc::invalid_argument,
        fmt::format("GradientSync: '{}' was marked on a different stream from earlier gradients "
                    "of this step. Mark all gradients on one stream that waits for the others",
                    parameters[parameter].name));
  }
  step_stream = stream;
  return {};
}

// Launches buckets strictly in order, so that all ranks call the same operations in the same order.
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
    MUSTER_RETURN_IF_ERROR(to_wire(bucket, stream));
    buffer.data = where.wire;
    buffer.dtype = *options.wire;
  }
  if (options.hook) {
    return options.hook(*comm, view(bucket, buffer, stream));
  }
  auto work = comm->all_reduce(buffer,
                               buffer,
                               options.average ? Op::avg : Op::sum,
                               {.stream = stream, .async = options.background});
  if (!work || !widens_at_launch()) {
    return work;
  }
  auto after = work->wait_stream(own_stream());
  if (after) {
    after = from_wire(bucket, own_stream());
  }
  return after ? work : std::unexpected(after.error());
}

GradientBucketView GradientSync::Impl::view(std::size_t bucket,
                                            const Buffer& buffer,
                                            void* stream) const {
  GradientBucketView out{.buffer = buffer,
                         .index = bucket,
                         .is_last = bucket + 1 == memory.size(),
                         .stream = stream,
                         .gradients = {}};
  for (const int id : plan.buckets[bucket].parameters) {
    const auto i = static_cast<std::size_t>(id);
    out.gradients.push_back({id, plan.places[i].first, parameters[i].count});
  }
  return out;
}

Result<void> GradientSync::Impl::finish(std::size_t bucket, TimePoint until) {
  const Duration timeout =
      until == TimePoint::max() ? Duration::zero() : std::max(until - steady_now(), Duration(1));
  const auto done = memory[bucket].work.wait(timeout);
  return done && options.wire && !widens_at_launch() ? from_wire(bucket, own_stream()) : done;
}

Result<void> GradientSync::Impl::finish_on(std::size_t bucket, void* stream) {
  const auto done = memory[bucket].work.wait_stream(stream);
  return done && options.wire && !widens_at_launch() ? from_wire(bucket, stream) : done;
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
                    : fmt::format("{} {} not marked in this step: {}{}",
                                  counted(count, "gradient"),
                                  agreeing(count, "was", "were"),
                                  names,
                                  count > 8 ? ", …" : "");
}

Result<void> GradientSync::Impl::exchange_used() {
  if (!options.has_unused) {
    return {};
  }
  const Buffer buffer{uses.data(), uses.size(), DType::u8};
  return comm->gradient_support().reduce_all(buffer, Op::max);
}

Result<GradientStats> GradientSync::Impl::end_step(const EndOfBucket& end, void* stream) {
  const std::scoped_lock lock(mutex);
  if (!in_step) {
    return wrong_state("wait was called without begin");
  }
  if (synchronizes) {
    if (const std::string names = unmarked(); !names.empty()) {
      return wrong_state(names);
    }
  }
  in_step = false;
  if (!synchronizes) {
    return GradientStats{};
  }
  auto stats = end_sums(end, stream);
  for (void* const used : {stream, step_stream.value_or(stream)}) {
    hold(used);
  }
  return stats;
}

Result<GradientStats> GradientSync::Impl::end_sums(const EndOfBucket& end, void* stream) {
  if (unlaunched) {
    for (const BucketMemory& bucket : memory) {
      [[maybe_unused]] const auto ended = bucket.work.wait();
    }
    return std::unexpected(*std::exchange(unlaunched, std::nullopt));
  }
  const TimePoint begun = steady_now();
  for (std::size_t b = 0; b < memory.size(); ++b) {
    if (auto done = end(b); !done) {
      // The caller's timeout expired and no operation failed, so the step continues.
      in_step = done.error().code == Errc::timeout && !comm->error();
      return std::unexpected(done.error());
    }
  }
  return summed(begun, stream);
}

// Finishes a step: all buckets are complete, or queued ahead of later work on `stream`.
Result<GradientStats> GradientSync::Impl::summed(TimePoint begun, void* stream) {
  auto done = exchange_used();
  if (done && widens_at_launch()) {
    done = queue->follow(stream, own_stream());
  }
  GradientStats stats;
  for (std::size_t b = 0; done && b < memory.size(); ++b) {
    stats.bytes += plan.buckets[b].count * size_of(plan.buckets[b].dtype);
    done = options.owns_memory ? done : copy_out(b, stream);
  }
  if (done && queue && stream == own_stream() && (options.wire || !options.owns_memory)) {
    done = queue->settle(stream);
  }
  MUSTER_RETURN_IF_ERROR(done);
  accumulated.assign(parameters.size(), false);
  stats.exposed = steady_now() - begun;
  stats.buckets = memory.size();
  if (options.reorder && std::exchange(may_reorder, false)) {
    auto moved = reorder(stream);
    MUSTER_RETURN_IF_ERROR(moved);
    stats.moved = *moved;
  }
  return stats;
}

// Runs once: sorts buckets by the order in which gradients became ready on rank 0.
Result<bool> GradientSync::Impl::reorder(void* stream) {
  std::vector<std::int32_t> first(order.begin(), order.end());
  const auto sent =
      comm->gradient_support().broadcast_from(0, {first.data(), first.size(), DType::i32});
  MUSTER_RETURN_IF_ERROR(sent);
  GradientPlan better = plan_gradients(parameters, {first.begin(), first.end()}, options.buckets);
  if (better == plan) {
    return false;
  }
  auto moved = move_to(*comm, std::move(better), stream);
  return moved ? Result<bool>(true) : std::unexpected(moved.error());
}

}  // namespace muster::collective
