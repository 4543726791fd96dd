// SPDX-License-Identifier: Apache-2.0
// Arena: hands out this rank's part of the memory that all ranks of the host map, for buffers that
// operations read and write without a copy. Book-keeping only, first fit; one thread. Resource.
#pragma once

#include "collective/error.hpp"
#include "collective/shm/shared_memory.hpp"

#include <cstdint>
#include <map>
#include <optional>

namespace muster::collective {

class Arena {
 public:
  // Of `memory`, from `first` on, `bytes`.
  Arena(SharedMemory& memory, std::uint64_t first, std::uint64_t bytes);

  // Zeroed, 4 KiB aligned. Errors: system (no memory), unsupported (the arena is used up).
  [[nodiscard]] Result<void*> alloc(std::size_t bytes);
  [[nodiscard]] Result<void> free(void* memory);

  static constexpr std::uint64_t kOutside = ~std::uint64_t{0};

  // Where in the arena (of all ranks) a buffer lies: kOutside if it does not.
  [[nodiscard]] std::uint64_t place_of(const void* memory, std::size_t bytes) const;

  // The memory at such a place. Maps the arena if this rank has not yet.
  [[nodiscard]] Result<char*> base();

 private:
  SharedMemory& memory_;
  std::uint64_t first_;
  std::uint64_t bytes_;
  char* base_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> used_;  // place → bytes
};

}  // namespace muster::collective
