// SPDX-License-Identifier: Apache-2.0
// GpuPointers: detects GPU memory that the caller passes as host memory. It queries the CUDA
// driver if the process itself has loaded it; it does not load or start anything. Every operation
// makes this query, so "host" results are cached per address region. That is safe because the
// driver reserves its own address ranges, so a region never changes its kind. One thread at a
// time; a value in each communicator.
#pragma once

#include "collective/types.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace muster::collective {

class GpuPointers {
 public:
  // A driver file to use instead of libcuda.so.1 (MUSTER_CUDA_LIBRARY).
  explicit GpuPointers(std::string driver = {}) : driver_(std::move(driver)) {}

  // Also returns kHost for memory that both host and GPU can access.
  [[nodiscard]] int device_of(const void* data) {
    const auto region = reinterpret_cast<std::uintptr_t>(data) >> kRegionBits;
    std::uintptr_t& known = host_[region % host_.size()];
    if (known == region) [[likely]] {
      return kHost;
    }
    const int device = ask(data);
    if (device == kHost) {
      known = region;
    }
    return device;
  }

 private:
  static constexpr unsigned kRegionBits = 21;

  [[nodiscard]] int ask(const void* data);

  std::string driver_;
  std::array<std::uintptr_t, 64> host_{};  // cached regions; never the one that contains null
  std::uint64_t loads_ = 0;                // libraries loaded at the last search for the driver
  void* asks_ = nullptr;                   // the driver's function, once found
};

}  // namespace muster::collective
