// SPDX-License-Identifier: Apache-2.0
// Trainer: the training steps on one rank. Each step takes a batch, divided into micro-batches that
// are distributed over the ranks. Each rank sums the gradients of its own micro-batches.
// GradientSync then sums them over all ranks, and each rank applies the same update to its network.
// Resource type; one thread.
#pragma once

#include "checkpoint.hpp"
#include "gradients.hpp"
#include "options.hpp"

namespace digits {

struct Epoch {
  double loss = 0;  // mean over the training images
  double accuracy = 0;
};

class Trainer {
 public:
  // Collective, like all functions here. Loads the network from the checkpoint, if there is one.
  [[nodiscard]] static Result<Trainer> create(muster::Communicator& communicator,
                                              const Options& options,
                                              DataSet data);

  [[nodiscard]] std::size_t next_epoch() const { return next_epoch_; }

  // One pass through the training images, then a test and a checkpoint.
  [[nodiscard]] Result<Epoch> epoch();

  // The parameters' hash. Error: the ranks' parameters differ.
  [[nodiscard]] Result<std::uint64_t> hash();

 private:
  Trainer(muster::Communicator& communicator,
          const Options& options,
          DataSet data,
          Mlp network,
          Gradients gradients);

  [[nodiscard]] Result<void> resume();
  [[nodiscard]] Result<double> step(std::span<const std::size_t> batch, const Grid<double>& grid);
  [[nodiscard]] Result<double> micro_batch(std::span<const std::size_t> pictures,
                                           bool first,
                                           bool last);
  void update();
  [[nodiscard]] double count_right();
  [[nodiscard]] Result<Epoch> of_all(Epoch mine);
  [[nodiscard]] Checkpoint state() const;
  void crash_on_purpose() const;

  muster::Communicator* comm_;
  Options options_;
  DataSet data_;
  Mlp network_;
  Gradients gradients_;
  std::vector<std::vector<float>> velocities_;
  std::size_t next_epoch_ = 1;
};

}  // namespace digits
