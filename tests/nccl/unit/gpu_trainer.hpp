// SPDX-License-Identifier: Apache-2.0
// Trainer: a rank with gradients on its fake GPU, and the values written to them.
#pragma once

#include "collective/gradient_sync.hpp"
#include "nccl/unit/gpu_world.hpp"

#include <array>

namespace muster::testing {

using collective::GradientBucketView;
using collective::GradientStats;
using collective::GradientSync;
using collective::GradientSyncOptions;
using collective::Result;

inline constexpr std::array<std::size_t, 4> kCounts{5, 4001, 33, 700};
inline constexpr int kGradients = 4;
inline const std::vector<int> kBackward{3, 2, 1, 0};

// Exact in bf16, including sums and halves.
inline float value(int rank, int id, std::size_t i, int step) {
  return static_cast<float>(static_cast<int>(i % 13) + 4 * id + 16 * rank + 2 * step);
}

inline float average(int id, std::size_t i, int step) {
  return (value(0, id, i, step) + value(1, id, i, step)) / 2;
}

// A rank whose gradients are in buckets or in its own memory.
struct Trainer {
  Communicator& comm;
  Gpu gpu;
  GradientSync sync;
  std::vector<std::vector<float>> values;
  std::vector<std::unique_ptr<DeviceMemory>> own;

  Trainer(Communicator& of, const GradientSyncOptions& options)
      : comm(of), gpu(of.rank()), sync(of, on(of.rank(), options)) {
    for (int id = 0; id < kGradients; ++id) {
      const std::size_t count = kCounts[static_cast<std::size_t>(id)];
      values.emplace_back(count);
      fill(id, 0);
      own.push_back(options.owns_memory
                        ? nullptr
                        : std::make_unique<DeviceMemory>(of.rank(), count * sizeof(float)));
      RANK_CHECK(sync.add("g" + std::to_string(id), DType::f32, count).has_value());
    }
    RANK_REQUIRE(sync.finalize().has_value());
    for (int id = 0; id < kGradients; ++id) {
      if (!options.owns_memory) {
        RANK_CHECK(sync.bind(id, own[static_cast<std::size_t>(id)]->get()).has_value());
      }
    }
  }

  static GradientSyncOptions on(int device, GradientSyncOptions options) {
    options.device = device;
    return options;
  }

  [[nodiscard]] void* where(int id) const {
    const auto& mine = own[static_cast<std::size_t>(id)];
    return mine ? mine->get() : *sync.grad(id);
  }

  void fill(int id, int step) {
    auto& to = values[static_cast<std::size_t>(id)];
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] = value(comm.rank(), id, i, step);
    }
  }

  // Does not wait, not even for the previous upload of the same step.
  void write(int id, int step) {
    const auto& from = values[static_cast<std::size_t>(id)];
    if (from[0] != value(comm.rank(), id, 0, step)) {
      fill(id, step);
    }
    gpu.upload(where(id), from);
  }

  // Everything before wait(), without waiting.
  void backward(int step, const std::vector<int>& order = kBackward) {
    gpu.settle();  // `values` can be reused now
    RANK_REQUIRE(sync.begin().has_value());
    for (const int id : order) {
      write(id, step);
      RANK_CHECK(sync.mark_ready(id, gpu.stream()).has_value());
    }
  }

  [[nodiscard]] Result<GradientStats> wait(bool host) {
    return host ? sync.wait() : sync.wait_stream(gpu.stream());
  }

  [[nodiscard]] std::vector<float> read(int id) const {
    return gpu.download(where(id), kCounts[static_cast<std::size_t>(id)]);
  }

  // Whether every gradient is the average of what two ranks wrote.
  [[nodiscard]] bool is_average(int step) const {
    for (int id = 0; id < kGradients; ++id) {
      const auto have = read(id);
      for (std::size_t i = 0; i < have.size(); ++i) {
        if (have[i] != average(id, i, step)) {
          return false;
        }
      }
    }
    return true;
  }
};

}  // namespace muster::testing
