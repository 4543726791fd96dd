// SPDX-License-Identifier: Apache-2.0
#include "collective/communicator.hpp"

#include "collective/bootstrap/environment.hpp"
#include "collective/communicator/communicator_impl.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

#include <unistd.h>

namespace muster::collective {

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Communicator::Communicator(Communicator&& other) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept = default;
Communicator::~Communicator() = default;

Result<Communicator> Communicator::from_env(CommOptions options) {
  return from_env(Environ::from_block(::environ), std::move(options));
}

Result<Communicator> Communicator::from_env(const Environ& environ, CommOptions options) {
  const auto place = worker_place(environ);
  MUSTER_RETURN_IF_ERROR(place);
  auto overridden = with_overrides(std::move(options), environ);
  MUSTER_RETURN_IF_ERROR(overridden);
  auto store = open_store(*place, overridden->init_timeout);
  MUSTER_RETURN_IF_ERROR(store);
  return Impl::make({std::move(*store), place->membership, std::move(*overridden), environ});
}

Result<Communicator> Communicator::create(std::shared_ptr<Store> store,
                                          const Membership& membership,
                                          CommOptions options,
                                          const PeerWatch* watch) {
  return Impl::make(
      {std::move(store), membership, std::move(options), Environ::from_block(::environ)}, watch);
}

int Communicator::rank() const {
  return impl_->recipe.membership.rank;
}

int Communicator::size() const {
  return impl_->recipe.membership.size;
}

std::uint64_t Communicator::epoch() const {
  return impl_->recipe.membership.epoch;
}

const std::string& Communicator::name() const {
  return impl_->recipe.options.name;
}

const std::string& Communicator::job() const {
  return impl_->recipe.membership.job;
}

Backend Communicator::backend() const {
  return impl_->backend;
}

Result<Work> Communicator::all_reduce(ConstBuffer in, Buffer out, Op op, OpOptions options) {
  return impl_->submit({.kind = Kind::all_reduce, .in = in, .out = out, .op = op}, options);
}

Result<Work> Communicator::reduce(ConstBuffer in, Buffer out, Op op, int root, OpOptions options) {
  return impl_->submit({.kind = Kind::reduce, .in = in, .out = out, .op = op, .root = root},
                       options);
}

Result<Work> Communicator::broadcast(Buffer buffer, int root, OpOptions options) {
  return impl_->submit({.kind = Kind::broadcast, .in = {}, .out = buffer, .root = root}, options);
}

Result<Work> Communicator::all_gather(ConstBuffer in, Buffer out, OpOptions options) {
  return impl_->submit({.kind = Kind::all_gather, .in = in, .out = out}, options);
}

Result<Work> Communicator::reduce_scatter(ConstBuffer in, Buffer out, Op op, OpOptions options) {
  return impl_->submit({.kind = Kind::reduce_scatter, .in = in, .out = out, .op = op}, options);
}

Result<Work> Communicator::all_to_all(ConstBuffer in, Buffer out, OpOptions options) {
  return impl_->submit({.kind = Kind::all_to_all, .in = in, .out = out}, options);
}

Result<Work> Communicator::send(ConstBuffer in, int to, OpOptions options) {
  return impl_->submit({.kind = Kind::send, .in = in, .out = {}, .root = to}, options);
}

Result<Work> Communicator::recv(Buffer out, int from, OpOptions options) {
  return impl_->submit({.kind = Kind::recv, .in = {}, .out = out, .root = from}, options);
}

Result<void> Communicator::barrier(OpOptions options) {
  const auto work = impl_->submit({.kind = Kind::barrier, .in = {}, .out = {}}, options);
  return work ? work->wait() : std::unexpected(work.error());
}

Result<std::optional<Communicator>> Communicator::split(int color, int key) {
  const auto ranks = static_cast<std::size_t>(size());
  const std::array<std::int32_t, 2> mine{color, key};
  std::vector<std::int32_t> all(2 * ranks);
  const auto gathered = impl_->submit_own({.kind = Kind::all_gather,
                                           .in = {mine.data(), 2, DType::i32},
                                           .out = {all.data(), 2 * ranks, DType::i32}});
  MUSTER_RETURN_IF_ERROR(gathered);
  const std::uint64_t number = ++impl_->splits;
  if (color < 0) {
    return std::optional<Communicator>();
  }
  Membership child = impl_->recipe.membership;
  child.rank = 0;
  child.size = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (all[2 * rank] == color) {
      const bool before =
          std::pair(all[2 * rank + 1], static_cast<int>(rank)) < std::pair(key, this->rank());
      child.rank += before ? 1 : 0;
      child.size += 1;
    }
  }
  auto made =
      impl_->make_child(child, fmt::format("{}.{}.{}", name(), number, color), impl_->peers);
  if (made) {
    return std::optional<Communicator>(std::move(*made));
  }
  // Prefer the parent's error, which names a rank by its number in the parent, not in the child.
  return std::unexpected(impl_->terminal_error().value_or(std::move(made.error())));
}

Result<Communicator> Communicator::rebuild(const Membership& membership) const {
  const Membership& before = impl_->recipe.membership;
  if (membership.epoch == before.epoch && membership.job == before.job) {
    return failure(Errc::invalid_argument,
                   fmt::format("rebuild: this communicator already has epoch {}; all ranks must "
                               "pass the same new epoch",
                               membership.epoch));
  }
  return impl_->make_child(membership, name(), nullptr);
}

Result<void*> Communicator::alloc(std::size_t bytes, int device) {
  if (device == kHost) {
    return impl_->host->alloc(bytes);
  }
  const auto transport = impl_->device_transport(device);
  return transport ? (*transport)->alloc(bytes) : std::unexpected(transport.error());
}

Result<void> Communicator::free(void* memory) {
  auto freed = impl_->host->free(memory);
  return freed || !impl_->device ? freed : impl_->device->free(memory);
}

void Communicator::abort(const std::string& reason) {
  impl_->abort(reason);
}

GradientSupport& Communicator::gradient_support() {
  return *impl_;
}

std::optional<Error> Communicator::error() const {
  return impl_->terminal_error();
}

std::string Communicator::dump() const {
  std::string out = fmt::format("communicator '{}', epoch {}, rank {} of {}, {}\n",
                                name(),
                                epoch(),
                                rank(),
                                size(),
                                name_of(backend()));
  out += impl_->segment->describe();
  return out + "flight recorder: " + impl_->recorder->path() + "\n";
}

}  // namespace muster::collective
