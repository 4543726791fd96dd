// SPDX-License-Identifier: Apache-2.0
// Gpu: a device of the fake driver, current in this thread while it lives, with a stream that can
// be stopped. For tests that call the driver's functions themselves; what fails ends the program.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <semaphore>
#include <string>
#include <vector>

namespace muster::testing {

inline constexpr int kDevices = 2;

class Gpu {
 public:
  explicit Gpu(int device = 0);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  [[nodiscard]] CUstream stream() const { return stream_; }

  [[nodiscard]] static CUstream new_stream();
  [[nodiscard]] static CUmodule load(const std::string& text);
  [[nodiscard]] static CUfunction function(CUmodule module, const char* name = "k");
  // Memory with these words in it.
  [[nodiscard]] static CUdeviceptr memory(const std::vector<std::uint32_t>& words);
  [[nodiscard]] static std::vector<std::uint32_t> words(CUdeviceptr memory, std::size_t count);

  // Nothing that is queued on the stream from now on begins before the gate is opened.
  void close_gate();

  void open_gate() { gate_.release(); }

  void wait() const;

 private:
  CUstream stream_ = nullptr;
  std::binary_semaphore gate_{0};
};

// One-dimensional.
CUresult launch(CUfunction function,
                unsigned blocks,
                unsigned threads,
                CUstream stream,
                std::vector<std::uint64_t> parameters);

}  // namespace muster::testing
