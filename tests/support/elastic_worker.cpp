// SPDX-License-Identifier: Apache-2.0
// elastic_worker: a training loop of muster::elastic for tests. Environment: STEPS; FOLDER; PLAN,
// words such as "1:step-20", each of which makes one process of this rank kill itself in this
// place, once. elastic_worker.c computes the same weights.
#include "muster/elastic.hpp"
#include "muster/worker.hpp"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace elastic = muster::elastic;

namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): reads only
  return value == nullptr ? "" : value;
}

// Waits until the test has opened the named pipe "ready": muster replaces a rank only if it knows
// that all ranks have the state.
void wait_for_test() {
  ::close(::open((variable("FOLDER") + "/ready").c_str(), O_RDONLY));
}

// Whether the plan contains this place for this rank, and no process has reached it before.
bool is_first(const std::string& place) {
  const std::string word = variable("RANK") + ":" + place;
  if ((" " + variable("PLAN") + " ").find(" " + word + " ") == std::string::npos) {
    return false;
  }
  const int fd = ::open((variable("FOLDER") + "/" + word).c_str(), O_CREAT | O_EXCL, 0600);
  if (fd < 0) {
    return false;
  }
  ::close(fd);
  wait_for_test();
  return true;
}

void die_once(const std::string& place) {
  if (is_first(place)) {
    static_cast<void>(std::raise(SIGKILL));
  }
}

struct Position {
  std::uint64_t step = 0;
  float sum = 0;
};

struct Model {
  Position position;
  std::vector<float> weights = std::vector<float>(64);

  void take_step(int rank) {
    std::uint32_t random = static_cast<std::uint32_t>(rank) * 7919U +
                           static_cast<std::uint32_t>(position.step) * 104729U;
    for (float& each : gradient) {
      random = random * 1664525U + 1013904223U;
      each = static_cast<float>(random >> 8U) * 1e-7F;
    }
  }

  void update() {
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] -= 0.01F * gradient[i];
    }
    position.sum += weights[0];
    position.step += 1;
  }

  std::vector<float> gradient = std::vector<float>(64);
};

muster::Result<void> train_step(muster::Communicator& comm, elastic::State& state, Model& model) {
  const std::string step = std::to_string(model.position.step);
  model.take_step(comm.rank());
  die_once("step-" + step);
  if (auto sum = comm.all_reduce({model.gradient.data(), model.gradient.size()}, muster::Op::sum);
      !sum) {
    return sum.error();
  }
  die_once("reduced-" + step);
  if (is_first("throw-" + step)) {
    throw std::runtime_error("thrown in step " + step);
  }
  if (is_first("fail-" + step)) {
    return muster::failure(muster::Errc::invalid_state, "the test wants an error");
  }
  model.update();
  auto committed = state.commit();
  die_once("committed-" + std::to_string(model.position.step));
  return committed;
}

std::string hash(const Model& model) {
  std::uint64_t sum = 1469598103934665603U;
  const auto* const bytes = reinterpret_cast<const unsigned char*>(model.weights.data());
  for (std::size_t i = 0; i < model.weights.size() * sizeof(float); ++i) {
    sum = (sum ^ bytes[i]) * 1099511628211U;
  }
  char text[20];
  static_cast<void>(
      std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(sum)));
  return text;
}

int report(const muster::Result<void>& done) {
  if (!done) {
    std::cerr << "error " << name_of(done.error().code) << ": " << done.error().text << '\n';
  }
  return done ? 0 : 1;
}

}  // namespace

int main() {
  die_once("start-" + std::to_string(muster::worker::epoch()));
  const std::uint64_t steps = std::stoull(variable("STEPS"));
  Model model;
  std::string resets;
  elastic::State state;
  state.add(model.position);
  state.add(model.weights);
  state.on_reset([&] {
    die_once("reset-" + std::to_string(state.commits()));
    resets += " " + std::to_string(state.commits());
  });
  const auto train = [&](muster::Communicator& comm) -> muster::Result<void> {
    die_once("enter-" + std::to_string(model.position.step));
    while (model.position.step < steps) {
      if (auto done = train_step(comm, state, model); !done) {
        return done;
      }
    }
    die_once("left");
    return {};
  };
  if (const int code = report(elastic::run(state, train)); code != 0) {
    return code;
  }
  std::printf("%s commits %llu epoch %llu resets%s\n",
              hash(model).c_str(),
              static_cast<unsigned long long>(state.commits()),
              static_cast<unsigned long long>(muster::worker::epoch()),
              resets.c_str());
  static_cast<void>(std::fflush(stdout));
  return variable("AGAIN").empty() ? 0 : report(elastic::run(state, train));
}
