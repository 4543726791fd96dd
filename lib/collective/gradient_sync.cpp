// SPDX-License-Identifier: Apache-2.0
#include "collective/gradient_sync.hpp"

#include "base/clock.hpp"
#include "collective/kernels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

namespace muster::collective {
namespace {

struct BucketMemory {
  void* data = nullptr;
  std::vector<char> wire;
  Work work;
  std::size_t missing = 0;
};

std::unexpected<Error> wrong_state(std::string text) {
  return failure(Errc::invalid_state, "GradientSync: " + std::move(text));
}

}  // namespace

class MUSTER_COLLECTIVE_HIDDEN GradientSync::Impl {
 public:
  Impl(Communicator& communicator, GradientSyncOptions given)
      : comm(&communicator), options(std::move(given)) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  ~Impl() { release(*comm, memory); }

  [[nodiscard]] Result<void> compare_with_others();
  [[nodiscard]] Result<std::vector<BucketMemory>> allocate(Communicator& from) const;
  void release(Communicator& from, std::vector<BucketMemory>& what) const;
  [[nodiscard]] Result<void> check_id(int id) const;
  [[nodiscard]] Result<void> mark(int id, void* stream, bool is_used);
  [[nodiscard]] Result<void> launch_ready(void* stream);
  [[nodiscard]] Result<Work> launch(std::size_t bucket, void* stream);
  [[nodiscard]] Result<void> finish(std::size_t bucket);
  [[nodiscard]] Result<void> exchange_used();
  [[nodiscard]] Result<bool> reorder();
  [[nodiscard]] Result<GradientStats> end_step(const std::function<Result<void>(std::size_t)>& end);
  [[nodiscard]] std::string unmarked() const;
  void copy_out(std::size_t bucket);

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
  bool is_final = false;
  bool may_reorder = true;

  std::mutex mutex;  // of what follows
  bool in_step = false;
  bool synchronizes = false;
  std::vector<bool> marked;
  std::vector<std::uint8_t> uses;
  std::vector<int> order;  // as gradients became ready
  std::size_t next = 0;    // bucket to launch
};

GradientSync::GradientSync(Communicator& communicator, GradientSyncOptions options)
    : impl_(std::make_unique<Impl>(communicator, std::move(options))) {}

GradientSync::GradientSync(GradientSync&& other) noexcept = default;
GradientSync& GradientSync::operator=(GradientSync&& other) noexcept = default;
GradientSync::~GradientSync() = default;

Result<int> GradientSync::add(std::string name, DType dtype, std::size_t count) {
  if (impl_->is_final) {
    return wrong_state("add '" + name + "' after finalize");
  }
  if (size_of(dtype) == 0 || (impl_->options.wire && dtype != DType::f32)) {
    return failure(Errc::invalid_argument,
                   fmt::format("GradientSync: '{}' is {}; with a wire type all gradients are f32",
                               name,
                               name_of(dtype)));
  }
  impl_->parameters.push_back({std::move(name), dtype, count});
  return static_cast<int>(impl_->parameters.size()) - 1;
}

Result<void> GradientSync::finalize() {
  Impl& s = *impl_;
  const auto wire = s.options.wire;
  if (s.is_final) {
    return wrong_state("finalize was called already");
  }
  if (wire && *wire != DType::bf16 && *wire != DType::f16) {
    return failure(Errc::invalid_argument, "GradientSync: the wire type is neither bf16 nor f16");
  }
  if (s.options.device != kHost && (wire || !s.options.owns_memory)) {
    return failure(Errc::unsupported,
                   "GradientSync: on GPUs gradients lie in buckets and travel as they are");
  }
  if (auto same = s.compare_with_others(); !same) {
    return same;
  }
  s.plan = plan_gradients(s.parameters, reverse_order(s.parameters.size()), s.options.buckets);
  auto allocated = s.allocate(*s.comm);
  if (!allocated) {
    return std::unexpected(allocated.error());
  }
  s.memory = std::move(*allocated);
  s.bound.resize(s.parameters.size());
  s.uses.assign(s.parameters.size(), 1);
  s.is_final = true;
  return {};
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
    static_cast<void>(bucket.work.wait());
    static_cast<void>(from.free(bucket.data));
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

Result<void*> GradientSync::grad(int id) const {
  if (auto known = impl_->check_id(id); !known) {
    return std::unexpected(known.error());
  }
  return impl_->at(impl_->memory, impl_->plan, id);
}

Result<void> GradientSync::bind(int id, void* gradient) {
  if (auto known = impl_->check_id(id); !known) {
    return known;
  }
  if (impl_->options.owns_memory) {
    return wrong_state("bind, but the gradients lie in buckets (owns_memory)");
  }
  impl_->bound[static_cast<std::size_t>(id)] = gradient;
  return {};
}

Result<void> GradientSync::begin(bool synchronize) {
  Impl& s = *impl_;
  const std::scoped_lock lock(s.mutex);
  if (!s.is_final || s.in_step) {
    return wrong_state(s.is_final ? "begin, but wait was not called" : "finalize was not called");
  }
  s.in_step = true;
  s.synchronizes = synchronize;
  s.marked.assign(s.parameters.size(), false);
  s.uses.assign(s.parameters.size(), 1);
  s.order.clear();
  s.next = 0;
  for (std::size_t b = 0; b < s.memory.size(); ++b) {
    s.memory[b].missing = s.plan.buckets[b].parameters.size();
    s.memory[b].work = {};
  }
  return {};
}

Result<void> GradientSync::mark_ready(int id, void* stream) {
  return impl_->mark(id, stream, true);
}

Result<void> GradientSync::mark_unused(int id) {
  if (!impl_->options.has_unused) {
    return wrong_state("mark_unused needs the option has_unused");
  }
  return impl_->mark(id, nullptr, false);
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

Result<GradientStats> GradientSync::wait() {
  return impl_->end_step([this](std::size_t bucket) { return impl_->finish(bucket); });
}

Result<GradientStats> GradientSync::wait_stream(void* stream) {
  if (impl_->options.device == kHost) {
    return wait();
  }
  return impl_->end_step(
      [this, stream](std::size_t b) { return impl_->memory[b].work.wait_stream(stream); });
}

bool GradientSync::used(int id) const {
  const auto i = static_cast<std::size_t>(id);
  return i < impl_->uses.size() && impl_->uses[i] != 0;
}

void GradientSync::zero() {
  for (std::size_t b = 0; impl_->options.device == kHost && b < impl_->memory.size(); ++b) {
    const GradientBucket& bucket = impl_->plan.buckets[b];
    std::memset(impl_->memory[b].data, 0, bucket.count * size_of(bucket.dtype));
  }
}

Result<void> GradientSync::rebind(Communicator& communicator) {
  Impl& s = *impl_;
  const std::scoped_lock lock(s.mutex);
  Communicator* const before = std::exchange(s.comm, &communicator);
  s.in_step = false;  // a step that failed is over
  if (!s.is_final) {
    return {};
  }
  if (auto same = s.compare_with_others(); !same) {
    return same;
  }
  // The first plan: ranks that have come new know no other.
  GradientPlan old = std::exchange(
      s.plan, plan_gradients(s.parameters, reverse_order(s.parameters.size()), s.options.buckets));
  s.may_reorder = true;
  auto allocated = s.allocate(communicator);
  if (!allocated) {
    return std::unexpected(allocated.error());
  }
  for (int id = 0; s.options.device == kHost && id < static_cast<int>(old.places.size()); ++id) {
    std::memcpy(s.at(*allocated, s.plan, id), s.at(s.memory, old, id), s.bytes(id));
  }
  s.release(*before, s.memory);
  s.memory = std::move(*allocated);
  return {};
}

const GradientPlan& GradientSync::plan() const {
  return impl_->plan;
}

}  // namespace muster::collective
