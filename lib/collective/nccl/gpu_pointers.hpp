// SPDX-License-Identifier: Apache-2.0
// GpuPointers: whether memory that the caller calls the host's is a GPU's, by the CUDA driver that
// this process has loaded itself; nothing is loaded or started for the question. Where an answer
// was "the host", it is kept by region, since every operation asks: the driver reserves its own
// parts of the address space, so regions do not change sides. One thread at a time; value of a
// communicator.
#pragma once

#include "collective/types.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace muster::collective {

class GpuPointers {
 public:
  // A file, if not libcuda.so.1 (MUSTER_CUDA_LIBRARY).
  explicit GpuPointers(std::string driver = {}) : driver_(std::move(driver)) {}

  // kHost, also for memory that both can use.
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
  std::array<std::uintptr_t, 64> host_{};  // regions; the first, of null, is nobody's
  std::uint64_t loads_ = 0;                // of libraries, when we last looked for the driver
  void* asks_ = nullptr;                   // the driver's function, once it is there
};

}  // namespace muster::collective
