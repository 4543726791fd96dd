// SPDX-License-Identifier: Apache-2.0
// Seeds of random tests: MUSTER_SEED from the environment, otherwise a fixed one. A test that uses
// a seed calls INFO(seed.describe()), so that a failure prints how to repeat it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>

namespace muster::testing {

class Seed {
 public:
  Seed() {
    // No test sets variables in another thread. NOLINTNEXTLINE(concurrency-mt-unsafe)
    const char* given = std::getenv("MUSTER_SEED");
    value_ = given == nullptr ? 20261121 : std::strtoull(given, nullptr, 0);
  }

  [[nodiscard]] std::uint64_t value() const { return value_; }

  [[nodiscard]] std::string describe() const { return "MUSTER_SEED=" + std::to_string(value_); }

 private:
  std::uint64_t value_ = 0;
};

// A small generator whose numbers are the same with every standard library.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}

  // 0 … bound-1.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return engine_() % bound; }

  [[nodiscard]] std::string bytes(std::uint64_t size) {
    std::string out;
    for (std::uint64_t i = 0; i < size; ++i) {
      out.push_back(static_cast<char>(below(256)));
    }
    return out;
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace muster::testing
