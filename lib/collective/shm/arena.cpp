// SPDX-License-Identifier: Apache-2.0
#include "collective/shm/arena.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace muster::collective {
namespace {

constexpr std::uint64_t kPage = 4096;

}  // namespace

Arena::Arena(SharedMemory& memory, std::uint64_t first, std::uint64_t bytes)
    : memory_(memory), first_(first), bytes_(bytes) {}

Result<char*> Arena::base() {
  if (base_ == nullptr) {
    const auto mapped = memory_.map();
    if (!mapped) {
      return mapped;
    }
    base_ = *mapped;
  }
  return base_;
}

Result<void*> Arena::alloc(std::size_t bytes) {
  const auto start = base();
  MUSTER_RETURN_IF_ERROR(start);
  // This check comes first, because rounding up a huge size would overflow.
  if (bytes > bytes_) {
    return failure(
        Errc::unsupported,
        fmt::format("alloc: {} bytes exceed this rank's arena (CommOptions::arena_bytes)", bytes));
  }
  // A buffer of 0 bytes gets a page too, so each pointer is unique.
  const std::uint64_t need = std::max<std::uint64_t>((bytes + kPage - 1) / kPage * kPage, kPage);
  std::uint64_t at = first_;
  // used_ is in order of offsets, so `at` is the end of the previous buffer.
  for (const auto& [place, size] : used_) {
    if (place - at >= need) {
      break;
    }
    at = place + size;
  }
  if (at + need > first_ + bytes_) {
    return failure(
        Errc::unsupported,
        fmt::format("alloc: this rank's arena has no contiguous free block of {} bytes; its "
                    "size is {} bytes (CommOptions::arena_bytes)",
                    need,
                    bytes_));
  }
  MUSTER_RETURN_IF_ERROR(memory_.reserve(at, need));
  used_[at] = need;
  return *start + at;
}

Result<void> Arena::free(void* memory) {
  const auto place =
      base_ == nullptr ? kOutside : static_cast<std::uint64_t>(static_cast<char*>(memory) - base_);
  // A pointer below base_ wraps to a large offset, which is not in used_.
  const auto found = used_.find(place);
  if (found == used_.end()) {
    return failure(Errc::invalid_argument, "free: this pointer was not returned by alloc");
  }
  memory_.drop(found->first, found->second);
  used_.erase(found);
  return {};
}

std::uint64_t Arena::place_of(const void* memory, std::size_t bytes) const {
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  const auto start = reinterpret_cast<std::uint64_t>(base_);
  // Before the first alloc() the arena is not mapped, so no buffer can be inside it.
  if (base_ == nullptr || address < start || address - start + bytes > memory_.size()) {
    return kOutside;
  }
  return address - start;
}

}  // namespace muster::collective
