// SPDX-License-Identifier: Apache-2.0
// Gradients: the gradients of a step, summed over its micro-batches and over the ranks by muster's
// GradientSync, in memory of the library or on a GPU. A step is, for each micro-batch of this rank:
// begin(), add() for every parameter as the backward pass comes by, end(). With the last one the
// sums travel, bucket by bucket, while the backward pass still runs. Terms are rounded to a grid,
// so the sums have the same bits for any number of ranks. Resource type; one thread.
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
  std::size_t bucket_bytes = 0;  // 0: what the library takes
  std::size_t terms = 1;         // micro-batches of a step, of all ranks
};

class Gradients {
 public:
  // Called by all ranks. Error: what the library says, as of a GPU that is missing.
  [[nodiscard]] static Result<Gradients> create(muster::Communicator& communicator,
                                                const std::vector<Parameter>& parameters,
                                                const GradientSettings& settings);

  // `last`: of this rank in this step.
  [[nodiscard]] Result<void> begin(bool first, bool last);
  [[nodiscard]] Result<void> add(std::size_t parameter, std::span<const float> gradient);
  // After the last one: sum() is that of all ranks.
  [[nodiscard]] Result<void> end();

  [[nodiscard]] std::span<const float> sum(std::size_t parameter) const { return sums_[parameter]; }

 private:
  Gradients(muster::GradientSync sync, const GradientSettings& settings);
  [[nodiscard]] Result<void> prepare(const std::vector<Parameter>& parameters);
  [[nodiscard]] Result<void> find_sums();

  muster::GradientSync sync_;
  Grid<float> grid_;
  std::optional<CudaCopy> gpu_;
  std::vector<std::vector<float>> staging_;  // what is added up for a GPU
  std::vector<std::span<float>> sums_;       // on the host
  bool last_ = false;
};

}  // namespace digits
