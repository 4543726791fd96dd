// SPDX-License-Identifier: Apache-2.0
// Trainer: the steps of the training on one rank. Each step takes a batch, cut into micro-batches
// that are dealt out to the ranks; every rank adds up the gradients of its own, GradientSync those
// of all ranks, and every rank changes its copy of the network alike. Resource type; one thread.
#pragma once

#include "checkpoint.hpp"
#include "gradients.hpp"
#include "options.hpp"

namespace digits {

struct Epoch {
  double loss = 0;  // mean over the pictures that it learned from
  double accuracy = 0;
};

class Trainer {
 public:
  // Called by all ranks, as everything here. The network is that of the checkpoint, if there is
  // one.
  [[nodiscard]] static Result<Trainer> create(muster::Communicator& communicator,
                                              const Options& options,
                                              DataSet data);

  [[nodiscard]] std::size_t next_epoch() const { return next_epoch_; }

  // One pass through the pictures, then a test and a checkpoint.
  [[nodiscard]] Result<Epoch> epoch();

  // Of the parameters. Error: the ranks' parameters differ.
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
