// SPDX-License-Identifier: Apache-2.0
// muster-sim: simulates thousands of jobs, one per seed, and prints the command that replays the
// first one that violates an invariant. Every tenth seed runs twice, and both traces must have the
// same hash. Finally prints the marks (base/mark.hpp) and how often they were reached. With
// --nodes, simulates jobs with many nodes (nodes/nodes_run.hpp).
#include "base/mark.hpp"
#include "sim/nodes/nodes_main.hpp"
#include "sim/world.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

extern "C" muster::Mark __start_muster_marks[];       // NOLINT: named by the linker
extern "C" muster::Mark __stop_muster_marks[];        // NOLINT
extern "C" muster::Mark __start_muster_node_marks[];  // NOLINT: those of the node cores
extern "C" muster::Mark __stop_muster_node_marks[];   // NOLINT

namespace {

constexpr std::string_view kUsage =
    "usage: muster-sim [--seeds COUNT] [--first SEED] [--seed SEED] [--trace] [--all-marks]\n"
    "                  [--nodes N [--level A|B] [--hangs] [--waits] [--mends] [--preempts] "
    "[--reboots]\n"
    "                  [--keep-going] [--scale | --mutate RULE]]\n";

struct Options {
  muster::sim::NodesCommand command;  // nodes is 0 for single-node jobs
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

// Parses an option with a value. False if the option is unknown or the value is invalid.
bool take_value(std::string_view word, std::string_view text, Options& options) {
  muster::sim::NodesCommand& command = options.command;
  if (word == "--level") {
    command.bytes = text == "B";
    return text == "A" || text == "B";
  }
  if (word == "--mutate") {
    command.mutation = text;
    return true;
  }
  const auto value = number(text);
  if (!value) {
    return false;
  }
  if (word == "--seed" || word == "--first") {
    command.first = *value;
    command.count = word == "--seed" ? 1 : command.count;
  } else if (word == "--seeds") {
    command.count = *value;
  } else if (word == "--nodes") {
    command.nodes = static_cast<std::uint32_t>(*value);
  } else {
    return false;
  }
  return true;
}

std::optional<Options> parse(int argc, char** argv) {
  Options options;
  options.command.nodes = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--trace") {
      options.command.trace = true;
    } else if (word == "--all-marks") {
      options.all_marks = true;
    } else if (word == "--keep-going") {
      options.command.keep_going = true;
    } else if (word == "--hangs") {
      options.command.hangs = true;
    } else if (word == "--waits") {
      options.command.waits = true;
    } else if (word == "--preempts") {
      options.command.preempts = true;
    } else if (word == "--mends") {
      options.command.mends = true;
    } else if (word == "--reboots") {
      options.command.reboots = true;
    } else if (word == "--scale") {
      options.command.scale = true;
    } else if (i + 1 == argc || !take_value(word, argv[++i], options)) {
      return std::nullopt;
    }
  }
  return options;
}

// False if an invariant was violated.
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

int missing_marks(const muster::Mark* from, const muster::Mark* to) {
  int missing = 0;
  for (const muster::Mark* mark = from; mark != to; ++mark) {
    fmt::print("mark {:>8}  {}\n", mark->count, mark->name);
    missing += mark->count == 0 ? 1 : 0;
  }
  return missing;
}

int play_one_node(const muster::sim::NodesCommand& command) {
  fmt::print("seeds {:#x} ... {:#x}\n", command.first, command.first + command.count - 1);
  std::uint64_t events = 0;
  for (std::uint64_t i = 0; i < command.count; ++i) {
    std::fflush(stdout);
    if (!play(command.first + i, command.trace, events)) {
      return 1;
    }
  }
  fmt::print("{} jobs, {} events, all invariants held\n", command.count, events);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  if (!options) {
    fmt::print(stderr, "{}", kUsage);
    return 2;
  }
  const bool many = options->command.nodes > 0;
  int code = many ? muster::sim::play_nodes(options->command) : play_one_node(options->command);
  if (many && options->all_marks && code == 0) {  // some marks are of mends
    muster::sim::NodesCommand mends = options->command;
    mends.mends = true;
    mends.count /= 2;
    code = muster::sim::play_nodes(mends);
  }
  if (code != 0 || options->command.scale || !options->command.mutation.empty()) {
    return code;
  }
  const int missing = many ? missing_marks(__start_muster_node_marks, __stop_muster_node_marks)
                           : missing_marks(__start_muster_marks, __stop_muster_marks);
  if (options->all_marks && missing > 0) {
    fmt::print("{} marks were never reached\n", missing);
    return 1;
  }
  return 0;
}
