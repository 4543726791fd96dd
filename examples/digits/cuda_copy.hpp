// SPDX-License-Identifier: Apache-2.0
// CudaCopy: copies between this process and a GPU, through NVIDIA's driver, which is loaded at run
// time, so that the program also starts on machines without it. Value type; use it only in the
// thread that opened it.
#pragma once

#include <cstddef>
#include <muster/result.hpp>
#include <span>

namespace digits {

using muster::Result;

class CudaCopy {
 public:
  [[nodiscard]] static Result<CudaCopy> open(int device);

  // Work queued on the default stream from now on sees the data.
  [[nodiscard]] Result<void> upload(void* to, std::span<const float> from) const;
  // Waits for work on the default stream.
  [[nodiscard]] Result<void> download(std::span<float> to, const void* from) const;

 private:
  using Address = unsigned long long;

  int (*to_device_)(Address, const void*, std::size_t) = nullptr;
  int (*from_device_)(void*, Address, std::size_t) = nullptr;
};

}  // namespace digits
