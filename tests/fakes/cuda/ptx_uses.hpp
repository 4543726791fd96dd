// SPDX-License-Identifier: Apache-2.0
// What a launch of a kernel uses of the device's memory: each use by each thread becomes a few
// spans. Made by the dry run (ptx_run), declared to Order by api_module. Values; pure.
#pragma once

#include "fakes/cuda/order.hpp"

#include <expected>

namespace muster::fake {

struct ThreadUse {
  std::uint64_t begin = 0;
  std::uint64_t thread = 0;  // number in the whole grid
  std::uint32_t line = 0;    // of the instruction
  std::uint16_t bytes = 0;
  bool write = false;

  [[nodiscard]] std::uint64_t end() const { return begin + bytes; }
};

// In the order of addresses, without overlap.
struct Uses {
  std::vector<Span> reads;
  std::vector<Span> writes;

  [[nodiscard]] bool allow(const ThreadUse& use) const;
};

// A sentence where one thread writes what another one uses: nothing orders the threads of a grid.
[[nodiscard]] std::expected<Uses, std::string> gather(std::vector<ThreadUse> uses);

}  // namespace muster::fake
