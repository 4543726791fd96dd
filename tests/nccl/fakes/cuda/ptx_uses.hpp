// SPDX-License-Identifier: Apache-2.0
// The device memory that a kernel launch uses: the uses of all threads combined into a few spans.
// Created by the dry run (ptx_run), declared to Order by api_module. Values; pure.
#pragma once

#include "nccl/fakes/cuda/order.hpp"

#include <expected>

namespace muster::fake {

struct ThreadUse {
  std::uint64_t begin = 0;
  std::uint64_t thread = 0;  // thread number in the whole grid
  std::uint32_t line = 0;    // line of the instruction in the PTX text
  std::uint16_t bytes = 0;
  bool write = false;

  [[nodiscard]] std::uint64_t end() const { return begin + bytes; }
};

// Sorted by address, without overlaps.
struct Uses {
  std::vector<Span> reads;
  std::vector<Span> writes;

  [[nodiscard]] bool allow(const ThreadUse& use) const;
};

// Returns an error if one thread writes what another one uses, because nothing orders the threads
// of a grid.
[[nodiscard]] std::expected<Uses, std::string> gather(std::vector<ThreadUse> uses);

}  // namespace muster::fake
