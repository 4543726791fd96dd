// SPDX-License-Identifier: Apache-2.0
#include "collective/nccl/gpu_pointers.hpp"

#include "support/catch.hpp"

#include <atomic>
#include <thread>
#include <vector>

namespace muster::collective {

// Only the thread sanitizer can see this test fail.
TEST_CASE("gpu pointers: several threads may query at the same time") {
  GpuPointers pointers;
  const std::vector<char> memory(std::size_t{16} << 20);
  std::atomic<int> foreign = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (std::size_t at = 0; at < memory.size(); at += std::size_t{1} << 20) {
        foreign += pointers.device_of(&memory[at]) != kHost ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  CHECK(foreign == 0);
}

}  // namespace muster::collective
