// SPDX-License-Identifier: Apache-2.0
// muster-digits: several processes together learn handwritten digits.
//
//     muster --nproc-per-node=2 build/release/examples/muster-digits
//
// It learns everything about the other workers from the environment, which muster (or torchrun)
// sets. The result has the same bits for every number of workers.
#include "trainer.hpp"

#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <string>

namespace {

using namespace digits;  // NOLINT(google-build-using-namespace): a program

// Writes a line in one piece, so that the output of other processes cannot split it.
void say(std::FILE* to, const std::string& line) {
  static_cast<void>(std::fputs((line + "\n").c_str(), to));
  static_cast<void>(std::fflush(to));
}

void say_beginning(const muster::Communicator& comm,
                   const Options& options,
                   const DataSet& data,
                   const Trainer& trainer) {
  const std::string by(options.on_gpu ? "NCCL" : name_of(comm.backend()));
  say(stdout,
      std::to_string(comm.size()) + (comm.size() == 1 ? " worker" : " workers") +
          ", gradients summed by " + by + ", " + std::to_string(data.training.count()) +
          " training images, " + std::to_string(data.tests.count()) +
          " test images; first epoch: " + std::to_string(trainer.next_epoch()));
}

// Prints the loss also in hexadecimal, exact to the last bit.
void say_epoch(std::size_t number, const Epoch& epoch, double seconds) {
  char line[160];
  static_cast<void>(std::snprintf(line,
                                  sizeof line,
                                  "epoch %2zu: loss %.4f (%a), test accuracy %.1f%%, %.2f s",
                                  number,
                                  epoch.loss,
                                  epoch.loss,
                                  100 * epoch.accuracy,
                                  seconds));
  say(stdout, line);
}

void say_model(std::uint64_t hash) {
  char line[32];
  static_cast<void>(std::snprintf(line, sizeof line, "model %016" PRIx64, hash));
  say(stdout, line);
}

Result<void> train(muster::Communicator& comm, const Options& options, const DataSet& data) {
  auto trainer = Trainer::create(comm, options, data);
  if (!trainer) {
    return trainer.error();
  }
  const bool first = comm.rank() == 0;
  if (first) {
    say_beginning(comm, options, data, *trainer);
  }
  while (trainer->next_epoch() <= options.epochs) {
    const std::size_t number = trainer->next_epoch();
    const auto begun = std::chrono::steady_clock::now();
    const auto epoch = trainer->epoch();
    if (!epoch) {
      return epoch.error();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
    if (first) {
      say_epoch(number, *epoch, took.count());
    }
  }
  const auto hash = trainer->hash();
  if (hash && first) {
    say_model(*hash);
  }
  return hash ? Result<void>() : hash.error();
}

Result<void> run(const Options& options) {
  const auto data = load_digits(options.data);
  if (!data) {
    return data.error();
  }
  auto comm = muster::Communicator::from_env();
  if (!comm) {
    return comm.error();
  }
  auto done = train(*comm, options, *data);
  if (!done) {
    comm->abort(done.error().text);  // so that the others can report the reason
  }
  return done;
}

}  // namespace

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = parse_options(argc, argv, exit_code);
  if (!options) {
    return exit_code;
  }
  if (const auto done = run(*options); !done) {
    say(stderr, "muster-digits: " + done.error().text);
    return 1;
  }
  return 0;
}
