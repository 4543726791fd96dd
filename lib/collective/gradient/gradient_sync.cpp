// SPDX-License-Identifier: Apache-2.0
#include "collective/gradient_sync.hpp"

#include "base/clock.hpp"
#include "collective/gradient/gradient_sync_impl.hpp"

#include <fmt/format.h>

#include <utility>

namespace muster::collective {
namespace {

constexpr std::size_t kHostCap = 2UL << 20;
constexpr std::size_t kDeviceCap = 25UL << 20;

GradientSyncOptions completed(GradientSyncOptions options) {
  if (options.buckets.cap == 0) {
    options.buckets.cap = options.device == kHost ? kHostCap : kDeviceCap;
  }
  return options;
}

}  // namespace

GradientSync::GradientSync(Communicator& communicator, GradientSyncOptions options)
    : impl_(std::make_unique<Impl>(communicator, completed(std::move(options)))) {}

GradientSync::GradientSync(GradientSync&& other) noexcept = default;

GradientSync& GradientSync::operator=(GradientSync&& other) noexcept = default;

GradientSync::~GradientSync() = default;

Result<int> GradientSync::add(std::string name, DType dtype, std::size_t count) {
  if (impl_->is_final) {
    return wrong_state("'" + name + "' was added after finalize");
  }
  if (size_of(dtype) == 0 || (impl_->options.wire && dtype != DType::f32)) {
    return failure(
        Errc::invalid_argument,
        fmt::format("GradientSync: '{}' is {}, but with a wire type all gradients must be f32",
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
    return wrong_state("finalize was called twice");
  }
  if (wire && *wire != DType::bf16 && *wire != DType::f16) {
    return failure(Errc::invalid_argument, "GradientSync: the wire type must be bf16 or f16");
  }
  if (auto same = s.compare_with_others(); !same) {
    return same;
  }
  s.plan = plan_gradients(s.parameters, reverse_order(s.parameters.size()), s.options.buckets);
  auto allocated = s.allocate(*s.comm);
  MUSTER_RETURN_IF_ERROR(allocated);
  s.memory = std::move(*allocated);
  if (auto opened = s.open_queue(); !opened) {
    return opened;
  }
  s.bound.resize(s.parameters.size());
  s.uses.assign(s.parameters.size(), 1);
  s.accumulated.assign(s.parameters.size(), false);
  s.is_final = true;
  return {};
}

Result<void*> GradientSync::grad(int id) const {
  MUSTER_RETURN_IF_ERROR(impl_->check_id(id));
  return impl_->at(impl_->memory, impl_->plan, id);
}

Result<void> GradientSync::bind(int id, void* gradient) {
  if (auto known = impl_->check_id(id); !known) {
    return known;
  }
  if (impl_->options.owns_memory) {
    return wrong_state(
        "bind() is not available because the gradients are in buckets (owns_memory)");
  }
  impl_->bound[static_cast<std::size_t>(id)] = gradient;
  return {};
}

Result<void> GradientSync::begin(bool synchronize) {
  Impl& s = *impl_;
  const std::scoped_lock lock(s.mutex);
  if (!s.is_final || s.in_step) {
    return wrong_state(s.is_final ? "begin was called twice without wait"
                                  : "finalize was not called");
  }
  s.in_step = true;
  s.synchronizes = synchronize;
  s.marked.assign(s.parameters.size(), false);
  s.uses.assign(s.parameters.size(), 1);
  s.order.clear();
  s.next = 0;
  s.unlaunched.reset();
  s.step_stream.reset();
  for (std::size_t b = 0; b < s.memory.size(); ++b) {
    s.memory[b].missing = s.plan.buckets[b].parameters.size();
    s.memory[b].work = {};
  }
  return {};
}

Result<void> GradientSync::mark_ready(int id, void* stream) {
  return impl_->mark(id, stream, true);
}

Result<void> GradientSync::mark_unused(int id, void* stream) {
  if (!impl_->options.has_unused) {
    return wrong_state("mark_unused requires the option has_unused");
  }
  return impl_->mark(id, stream, false);
}

Result<GradientStats> GradientSync::wait(Duration timeout) {
  const TimePoint until = timeout > Duration::zero() ? steady_now() + timeout : TimePoint::max();
  return impl_->end_step([this, until](std::size_t b) { return impl_->finish(b, until); },
                         impl_->own_stream());
}

Result<GradientStats> GradientSync::wait_stream(void* stream) {
  if (!impl_->on_gpu()) {
    return wait();
  }
  return impl_->end_step([this, stream](std::size_t b) { return impl_->finish_on(b, stream); },
                         stream);
}

bool GradientSync::used(int id) const {
  const auto i = static_cast<std::size_t>(id);
  return i < impl_->uses.size() && impl_->uses[i] != 0;
}

Result<void> GradientSync::zero(void* stream) {
  Impl& s = *impl_;
  const std::scoped_lock lock(s.mutex);
  s.accumulated.assign(s.accumulated.size(), false);
  for (std::size_t b = 0; b < s.memory.size(); ++b) {
    const std::size_t bytes = s.plan.buckets[b].count * size_of(s.plan.buckets[b].dtype);
    if (auto done = s.clear(s.memory[b].data, bytes, stream); !done) {
      return done;
    }
  }
  return {};
}

Result<void> GradientSync::rebind(Communicator& communicator) {
  Impl& s = *impl_;
  const std::scoped_lock lock(s.mutex);
  Communicator* const before = std::exchange(s.comm, &communicator);
  s.in_step = false;  // a failed step is over
  if (!s.is_final) {
    return {};
  }
  if (auto same = s.compare_with_others(); !same) {
    return same;
  }
  // Start from the initial plan, because newly started ranks have no other plan.
  s.may_reorder = true;
  return s.move_to(
      *before,
      plan_gradients(s.parameters, reverse_order(s.parameters.size()), s.options.buckets),
      s.own_stream());
}

const GradientPlan& GradientSync::plan() const {
  return impl_->plan;
}

}  // namespace muster::collective
