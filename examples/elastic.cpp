// SPDX-License-Identifier: Apache-2.0
// Training in C++ that survives the loss of a worker: muster replaces only the lost process.
//
//     muster --restart=rank --max-restarts=3 --nproc-per-node=4
//     build/release/examples/muster-elastic
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <muster/elastic.hpp>
#include <random>
#include <vector>

struct Model {
  std::uint64_t step = 0;
  std::vector<float> weights = std::vector<float>(64);
};

// A model that learns its input: the gradient of |weights - sample|²/2 for a random sample. The
// generator depends only on the step and the rank, so a repeated step computes the same.
std::vector<float> gradient_of(const Model& model, int rank) {
  std::seed_seq seed{model.step, static_cast<std::uint64_t>(rank)};
  std::mt19937 generator(seed);
  std::normal_distribution<float> sample(1.0F);
  std::vector<float> gradient = model.weights;
  for (float& each : gradient) {
    each -= sample(generator);
  }
  return gradient;
}

int main(int argc, char** argv) {
  const std::uint64_t steps = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20000;
  Model model;
  muster::elastic::State state;
  state.add(model.step);
  state.add(model.weights);

  // Starts from the values of the state, which are those of the last commit.
  const auto train = [&](muster::Communicator& comm) -> muster::Result<void> {
    while (model.step < steps) {
      std::vector<float> gradient = gradient_of(model, comm.rank());
      auto sum = comm.all_reduce({gradient.data(), gradient.size()}, muster::Op::avg);
      if (!sum) {
        return sum.error();  // muster::elastic::run decides whether to continue
      }
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        model.weights[i] -= 0.001F * gradient[i];
      }
      model.step += 1;
      if (auto committed = state.commit(); !committed) {
        return committed;
      }
    }
    return {};
  };

  if (auto done = muster::elastic::run(state, train); !done) {
    std::cerr << done.error().text << '\n';
    return 1;
  }
  std::cout << model.step << " steps, first weight " << model.weights[0] << '\n';
  return 0;
}
