// SPDX-License-Identifier: Apache-2.0
// GpuPointers: detects GPU memory that the caller passes as host memory. It queries the CUDA driver
// only if the process has already loaded it; it never loads or starts the driver itself. Every
// operation makes this query, so "host" results are cached per address region. That is safe because
// the driver reserves its own address ranges, so a region of host memory stays host memory.
// Thread-safe, because a query runs before the check that rejects a second thread in a
// communicator.
#pragma once

#include "collective/types.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace muster::collective {

class GpuPointers {
 public:
  // Call this before the first query, to use this file instead of libcuda.so.1
  // (MUSTER_CUDA_LIBRARY).
  void use_driver(std::string file) { driver_ = std::move(file); }

  // Also returns kHost for memory that both host and GPU can access.
  [[nodiscard]] int device_of(const void* data) {
    const auto region = reinterpret_cast<std::uintptr_t>(data) >> kRegionBits;
    auto& known = host_[region % host_.size()];
    if (known.load(std::memory_order_relaxed) == region) [[likely]] {
      return kHost;
    }
    const int device = ask(data);
    if (device == kHost) {
      known.store(region, std::memory_order_relaxed);
    }
    return device;
  }

 private:
  static constexpr unsigned kRegionBits = 21;

  [[nodiscard]] int ask(const void* data);

  std::string driver_;
  // Cached regions. The region that contains null is never cached.
  std::array<std::atomic<std::uintptr_t>, 64> host_{};
  std::atomic<std::uint64_t> loads_ = 0;  // number of loaded libraries at the last driver search
  std::atomic<void*> asks_ = nullptr;     // the driver's cuPointerGetAttribute; null until found
};

}  // namespace muster::collective
