// SPDX-License-Identifier: Apache-2.0
// Gradients: the gradients of a step, summed over its micro-batches and over the ranks by muster's
// GradientSync, in library memory or on a GPU. A step calls, for each micro-batch of this rank:
// begin(), add() for every parameter as the backward pass reaches it, end(). During the last one
// the sums are sent, bucket by bucket, while the backward pass still runs. Terms are rounded to a
// grid, so the sums have the same bits for any number of ranks. Resource type; one thread.
#pragma once

#include "cuda_copy.hpp"
#include "exact_sum.hpp"
#include "mlp.hpp"

#include <muster/gradient_sync.hpp>
#include <optional>
#include <span>
#include <vector>

namespace digits {

struct GradientSettings {
  int device = muster::kHost;
  std::size_t bucket_bytes = 0;  // 0: the library's default
  std::size_t terms = 1;         // micro-batches of a step over all ranks
};

class Gradients {
 public:
  // Collective. Returns the library's error, for example if a GPU is missing.
  [[nodiscard]] static Result<Gradients> create(muster::Communicator& communicator,
                                                const std::vector<Parameter>& parameters,
                                                const GradientSettings& settings);

  // `last`: the last micro-batch of this rank in this step.
  [[nodiscard]] Result<void> begin(bool first, bool last);
  [[nodiscard]] Result<void> add(std::size_t parameter, std::span<const float> gradient);
  // After the last micro-batch, sum() is the sum over all ranks.
  [[nodiscard]] Result<void> end();

  [[nodiscard]] std::span<const float> sum(std::size_t parameter) const { return sums_[parameter]; }

 private:
  Gradients(muster::GradientSync sync, const GradientSettings& settings);
  [[nodiscard]] Result<void> prepare(const std::vector<Parameter>& parameters);
  [[nodiscard]] Result<void> find_sums();

  muster::GradientSync sync_;
  Grid<float> grid_;
  std::optional<CudaCopy> gpu_;
  std::vector<std::vector<float>> staging_;  // sums on the host, to be copied to a GPU
  std::vector<std::span<float>> sums_;       // on the host
  bool last_ = false;
};

}  // namespace digits
