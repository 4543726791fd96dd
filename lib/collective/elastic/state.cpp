// SPDX-License-Identifier: Apache-2.0
#include "collective/elastic/state.hpp"

#include "base/fnv.hpp"
#include "worker/worker.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>

namespace muster::collective::elastic {

Result<void> State::add(void* data, std::size_t bytes) {
  if (memory_ != nullptr) {
    return failure(Errc::invalid_state,
                   "cannot add memory to the state after its first commit or after the start of "
                   "the function: add all memory first");
  }
  if (data == nullptr && bytes > 0) {
    return failure(Errc::invalid_argument,
                   fmt::format("cannot add {} bytes to the state: the pointer is null", bytes));
  }
  parts_.emplace_back(static_cast<std::byte*>(data), bytes);
  bytes_ += bytes;
  return {};
}

Result<void> State::prepare() {
  if (memory_ == nullptr) {
    memory_.reset(new (std::nothrow) std::byte[2 * bytes_]);
  }
  if (memory_ == nullptr) {
    return std::unexpected(system_failure(
        fmt::format("cannot allocate two copies of the state, {} bytes each", bytes_), ENOMEM));
  }
  return {};
}

Result<void> State::commit() {
  if (auto prepared = prepare(); !prepared) {
    return prepared;
  }
  save();
  counter_ = commits() + 1;
  worker::progress(commits());
  auto loss = watch_ != nullptr ? watch_->failure() : std::nullopt;
  return loss ? Result<void>(std::unexpected(std::move(*loss))) : Result<void>();
}

void State::save() {
  std::byte* to = spare().data();
  for (const auto part : parts_) {
    if (!part.empty()) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
  }
  adopt_spare();
}

void State::restore() {
  const std::byte* from = counter_ ? copy(current_).data() : nullptr;
  for (const auto part : parts_) {
    if (from != nullptr && !part.empty()) {
      std::memcpy(part.data(), from, part.size());
      from += part.size();
    }
  }
}

void State::call_reset_functions() {
  for (const auto& function : resets_) {
    function();
  }
}

std::uint64_t State::layout() const {
  std::string sizes;
  for (const auto part : parts_) {
    sizes += fmt::format("{} ", part.size());
  }
  return fnv_1a(sizes);
}

std::span<std::byte> State::last() {
  if (!counter_) {
    save();
  }
  return copy(current_);
}

std::span<std::byte> State::copy(std::size_t index) const {
  return {memory_.get() + index * bytes_, bytes_};
}

}  // namespace muster::collective::elastic
