// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace digits {
namespace {

using muster::Communicator;
using muster::DType;
using muster::Errc;
using muster::failure;
using muster::kHost;
using muster::Op;

constexpr std::uint32_t kSeed = 1;
constexpr float kMomentum = 0.9F;
// Losses are summed in f64. The sums are far below the grid's limit, and its step is far smaller
// than the last printed digit.
constexpr double kLossStep = 0x1p-36;

// Variables set by the launcher. No thread modifies the environment.
int from_launcher(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? 0 : std::atoi(value);
}

Result<void> check_sizes(const Communicator& communicator,
                         const Options& options,
                         const DataSet& data) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  if (options.micro_batches % ranks != 0) {
    return failure(Errc::invalid_argument,
                   std::to_string(ranks) + " workers cannot share a batch of " +
                       std::to_string(options.micro_batches) +
                       " parts evenly: --micro-batches must be a multiple of their number");
  }
  if (options.batch_size > data.training.count()) {
    return failure(
        Errc::invalid_argument,
        "--batch-size exceeds the " + std::to_string(data.training.count()) + " training images");
  }
  return {};
}

}  // namespace

Trainer::Trainer(Communicator& communicator,
                 const Options& options,
                 DataSet data,
                 Mlp network,
                 Gradients gradients)
    : comm_(&communicator),
      options_(options),
      data_(std::move(data)),
      network_(std::move(network)),
      gradients_(std::move(gradients)) {
  for (const Parameter& parameter : network_.parameters()) {
    velocities_.emplace_back(parameter.values.size());
  }
}

Result<Trainer> Trainer::create(Communicator& communicator, const Options& options, DataSet data) {
  if (auto fit = check_sizes(communicator, options, data); !fit) {
    return fit.error();
  }
  Mlp network(kSeed);
  auto gradients = Gradients::create(communicator,
                                     network.parameters(),
                                     {options.on_gpu ? from_launcher("LOCAL_RANK") : kHost,
                                      options.bucket_bytes,
                                      options.micro_batches});
  if (!gradients) {
    return gradients.error();
  }
  Trainer out(communicator, options, std::move(data), std::move(network), *std::move(gradients));
  if (auto done = out.resume(); !done) {
    return done.error();
  }
  return out;
}

// Rank 0 reads the file and broadcasts it, because the other ranks' machines may lack it.
Result<void> Trainer::resume() {
  Checkpoint from = state();
  if (comm_->rank() == 0 && !options_.checkpoint.empty()) {
    auto loaded = load(options_.checkpoint, from.values.size());
    if (!loaded) {
      return loaded.error();
    }
    from = std::move(*loaded).value_or(std::move(from));
  }
  if (auto done = comm_->broadcast({&from.epoch, 1, DType::u32}, 0); !done) {
    return done.error();
  }
  if (auto done = comm_->broadcast({from.values.data(), from.values.size(), DType::f32}, 0);
      !done) {
    return done.error();
  }
  next_epoch_ = from.epoch + 1;
  auto at = from.values.cbegin();
  const auto take = [&at](std::vector<float>& values) {
    std::copy_n(at, values.size(), values.begin());
    at += static_cast<std::ptrdiff_t>(values.size());
  };
  for (Parameter& parameter : network_.parameters()) {
    take(parameter.values);
  }
  for (std::vector<float>& velocity : velocities_) {
    take(velocity);
  }
  return {};
}

Checkpoint Trainer::state() const {
  Checkpoint out;
  out.epoch = static_cast<std::uint32_t>(next_epoch_ - 1);
  for (const Parameter& parameter : network_.parameters()) {
    out.values.insert(out.values.end(), parameter.values.begin(), parameter.values.end());
  }
  for (const std::vector<float>& velocity : velocities_) {
    out.values.insert(out.values.end(), velocity.begin(), velocity.end());
  }
  return out;
}

// Images that do not fill a batch are skipped; each epoch skips different ones.
Result<Epoch> Trainer::epoch() {
  const auto order = shuffled(data_.training.count(), static_cast<std::uint32_t>(next_epoch_));
  const std::size_t steps = order.size() / options_.batch_size;
  const Grid<double> grid(kLossStep, steps * options_.micro_batches);
  Epoch mine;
  for (std::size_t i = 0; i < steps; ++i) {
    if (i == steps / 2) {
      crash_on_purpose();
    }
    const auto batch = std::span(order).subspan(i * options_.batch_size, options_.batch_size);
    auto loss = step(batch, grid);
    if (!loss) {
      return loss.error();
    }
    mine.loss += *loss;
  }
  mine.accuracy = count_right();
  auto all = of_all(mine);
  if (!all) {
    return all;
  }
  all->loss /= static_cast<double>(steps * options_.micro_batches);
  all->accuracy /= static_cast<double>(data_.tests.count());
  ++next_epoch_;
  if (comm_->rank() == 0 && !options_.checkpoint.empty()) {
    if (auto saved = save(options_.checkpoint, state()); !saved) {
      return saved.error();
    }
  }
  return all;
}

// This rank's share of a batch; each rank has the same number of micro-batches. Returns the sum of
// their losses.
Result<double> Trainer::step(std::span<const std::size_t> batch, const Grid<double>& grid) {
  const std::size_t share = options_.micro_batches / static_cast<std::size_t>(comm_->size());
  const std::size_t pictures = options_.batch_size / options_.micro_batches;
  double losses = 0;
  for (std::size_t i = 0; i < share; ++i) {
    const std::size_t number = static_cast<std::size_t>(comm_->rank()) * share + i;
    auto loss = micro_batch(batch.subspan(number * pictures, pictures), i == 0, i + 1 == share);
    if (!loss) {
      return loss;
    }
    losses += grid.nearest(*loss);
  }
  update();
  return losses;
}

Result<double> Trainer::micro_batch(std::span<const std::size_t> pictures, bool first, bool last) {
  Result<void> done = gradients_.begin(first, last);
  if (!done) {
    return done.error();
  }
  const double loss =
      network_.learn(data_.training,
                     pictures,
                     [this, &done](std::size_t parameter, std::span<const float> values) {
                       if (done) {
                         done = gradients_.add(parameter, values);
                       }
                     });
  if (done) {
    done = gradients_.end();
  }
  return done ? Result<double>(loss) : done.error();
}

// Gradient descent with momentum.
void Trainer::update() {
  const auto parts = static_cast<float>(options_.micro_batches);
  for (std::size_t p = 0; p < velocities_.size(); ++p) {
    std::vector<float>& values = network_.parameters()[p].values;
    const std::span<const float> sum = gradients_.sum(p);
    for (std::size_t i = 0; i < values.size(); ++i) {
      velocities_[p][i] = kMomentum * velocities_[p][i] + sum[i] / parts;
      values[i] -= options_.learning_rate * velocities_[p][i];
    }
  }
}

// Each rank takes every size-th image.
double Trainer::count_right() {
  const auto ranks = static_cast<std::size_t>(comm_->size());
  double right = 0;
  for (auto i = static_cast<std::size_t>(comm_->rank()); i < data_.tests.count(); i += ranks) {
    right += network_.read(data_.tests.pixels_of(i)) == data_.tests.digits[i] ? 1 : 0;
  }
  return right;
}

// Sums over the ranks; exact, see Grid.
Result<Epoch> Trainer::of_all(Epoch mine) {
  std::array<double, 2> sums{mine.loss, mine.accuracy};
  const muster::Buffer buffer{sums.data(), sums.size(), DType::f64};
  if (auto done = comm_->all_reduce(buffer, buffer, Op::sum); !done) {
    return done.error();
  }
  return Epoch{sums[0], sums[1]};
}

Result<std::uint64_t> Trainer::hash() {
  Checkpoint all = state();
  all.values.resize(all.values.size() / 2);  // without the velocities
  const std::uint64_t mine = hash_of(all.values);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(comm_->size()));
  if (auto done =
          comm_->all_gather({&mine, 1, DType::u64}, {hashes.data(), hashes.size(), DType::u64});
      !done) {
    return done.error();
  }
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != mine) {
      return failure(Errc::mismatch,
                     "the parameters of rank " + std::to_string(rank) +
                         " differ from those of rank " + std::to_string(comm_->rank()));
    }
  }
  return mine;
}

// The last worker kills itself once, to show that a restart resumes the training.
void Trainer::crash_on_purpose() const {
  if (next_epoch_ == options_.crash_in_epoch && comm_->rank() == comm_->size() - 1 &&
      from_launcher("TORCHELASTIC_RESTART_COUNT") == 0) {
    static_cast<void>(::kill(::getpid(), SIGKILL));
  }
}

}  // namespace digits
