// SPDX-License-Identifier: Apache-2.0
// Arena: allocates buffers that operations access without a copy, from this rank's part of the
// memory that all ranks on the host map. Does only the bookkeeping (first fit). One thread.
// Resource.
#pragma once

#include "collective/error.hpp"
#include "collective/shm/shared_memory.hpp"

#include <cstdint>
#include <map>
#include <optional>

namespace muster::collective {

class Arena {
 public:
  // Manages `bytes` of `memory`, starting at offset `first`.
  Arena(SharedMemory& memory, std::uint64_t first, std::uint64_t bytes);

  // The memory is zeroed and aligned to 4 KiB. Errors: system (out of memory), unsupported (arena
  // exhausted).
  [[nodiscard]] Result<void*> alloc(std::size_t bytes);
  [[nodiscard]] Result<void> free(void* memory);

  static constexpr std::uint64_t kOutside = ~std::uint64_t{0};

  // A buffer's offset in the shared arena of all ranks; kOutside if it is not in the arena.
  [[nodiscard]] std::uint64_t place_of(const void* memory, std::size_t bytes) const;

  // The address at offset 0, for offsets from place_of(). The first call maps the arena.
  [[nodiscard]] Result<char*> base();

 private:
  SharedMemory& memory_;
  std::uint64_t first_;
  std::uint64_t bytes_;
  char* base_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> used_;  // offset → bytes
};

}  // namespace muster::collective
