// SPDX-License-Identifier: Apache-2.0
// muster-sim: plays thousands of simulated jobs, each from a seed, and prints the command that
// replays the first one that breaks an invariant. Each tenth seed is played twice: the two traces
// must have the same hash. Ends with the marks (base/mark.hpp) and how often they were reached.
#include "base/mark.hpp"
#include "sim/world.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

extern "C" muster::Mark __start_muster_marks[];  // NOLINT: named by the linker
extern "C" muster::Mark __stop_muster_marks[];   // NOLINT

namespace {

struct Options {
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  bool trace = false;
  bool all_marks = false;
};

std::optional<std::uint64_t> number(std::string_view text) {
  const int base = text.starts_with("0x") ? 16 : 10;
  text.remove_prefix(base == 16 ? 2 : 0);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return value;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--trace") {
      options.trace = true;
    } else if (word == "--all-marks") {
      options.all_marks = true;
    } else if ((word == "--seed" || word == "--seeds" || word == "--first") && i + 1 < argc) {
      const auto value = number(argv[++i]);
      if (!value) {
        return std::nullopt;
      }
      (word == "--seeds" ? options.count : options.first) = *value;
      options.count = word == "--seed" ? 1 : options.count;
    } else {
      return std::nullopt;
    }
  }
  return options;
}

// False: an invariant broke.
bool play(std::uint64_t seed, bool trace, std::uint64_t& events) {
  const muster::sim::RunReport report = muster::sim::World(seed, trace).run();
  events += report.events;
  std::string problem = report.problem;
  if (problem.empty() && seed % 10 == 0 &&
      muster::sim::World(seed, false).run().trace_hash != report.trace_hash) {
    problem = "two runs of one seed differ";
  }
  if (!problem.empty()) {
    fmt::print(
        "seed {:#x}: {}\nreproduce: scripts/sim --seed {:#x} --trace\n", seed, problem, seed);
  }
  return problem.empty();
}

int missing_marks() {
  int missing = 0;
  for (const muster::Mark* mark = __start_muster_marks; mark != __stop_muster_marks; ++mark) {
    fmt::print("mark {:>8}  {}\n", mark->count, mark->name);
    missing += mark->count == 0 ? 1 : 0;
  }
  return missing;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr,
               "usage: muster-sim [--seeds COUNT] [--first SEED] [--seed SEED] [--trace] "
               "[--all-marks]\n");
    return 2;
  }
  fmt::print("seeds {:#x} ... {:#x}\n", options->first, options->first + options->count - 1);
  std::uint64_t events = 0;
  for (std::uint64_t i = 0; i < options->count; ++i) {
    std::fflush(stdout);
    if (!play(options->first + i, options->trace, events)) {
      return 1;
    }
  }
  fmt::print("{} jobs, {} events, all invariants held\n", options->count, events);
  const int missing = missing_marks();
  if (options->all_marks && missing > 0) {
    fmt::print("{} marks were never reached\n", missing);
    return 1;
  }
  return 0;
}
