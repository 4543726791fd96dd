// SPDX-License-Identifier: Apache-2.0
#include "sim/nodes/nodes_main.hpp"

#include "base/mutate.hpp"
#include "sim/nodes/nodes_run.hpp"
#include "sim/nodes/reboots.hpp"
#include "sim/nodes/scale.hpp"
#include "sim/random.hpp"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace muster::sim {
namespace {

struct Totals {
  std::uint64_t events = 0;
  std::uint64_t messages = 0;
  std::uint64_t rounds = 0;
  std::uint64_t closed = 0;
  std::uint64_t converged = 0;
};

NodesReport play(const NodesCommand& command, std::uint64_t seed, bool trace) {
  // Mixed once, because the sequences of adjacent states only differ by one step.
  Random random(Random(seed ^ std::uint64_t{command.nodes} << 32).next());
  Trace record;
  record.on = trace;
  if (command.reboots) {
    return run_reboots(command.nodes, random, record);
  }
  NodesOptions options = nodes_options(command.nodes, random);
  options.bytes = command.bytes;
  options.hangs = command.hangs;
  options.preempts = command.preempts;
  options.waits = command.waits;
  if (command.mends) {
    use_mends(options);
  }
  return run_nodes(options, random.next(), record);
}

// Printed even if a core aborts: the line that replays the run.
std::string reproduction;  // NOLINT: a signal handler has no other way to it

void on_abort(int /*signo*/) {
  std::fputs(reproduction.c_str(), stdout);
  std::fflush(stdout);
}

std::string reproduce_line(const NodesCommand& command, std::uint64_t seed) {
  return fmt::format(
      "reproduce: scripts/sim --seed {:#x} --nodes {} --level {}{}{}{}{}{} --trace\n",
      seed,
      command.nodes,
      command.bytes ? 'B' : 'A',
      command.hangs ? " --hangs" : "",
      command.waits ? " --waits" : "",
      command.mends ? " --mends" : "",
      command.preempts ? " --preempts" : "",
      command.reboots ? " --reboots" : "");
}

// Empty if all rules held.
std::string play_seed(const NodesCommand& command, std::uint64_t seed, Totals& totals) {
  reproduction = reproduce_line(command, seed);
  const NodesReport report = play(command, seed, command.trace);
  totals.events += report.events;
  totals.messages += report.messages;
  totals.rounds += report.rounds;
  totals.closed += report.closed ? 1 : 0;
  totals.converged += report.converged ? 1 : 0;
  if (report.problem.empty() && seed % 10 == 0 &&
      play(command, seed, false).trace_hash != report.trace_hash) {
    return "two runs of one seed differ";
  }
  return report.problem;
}

}  // namespace

namespace {

// Breaks a rule: a checker must detect it within the given seeds.
int catch_mutation(const NodesCommand& command) {
  mutation = command.mutation;
  Totals totals;
  for (std::uint64_t seed = command.first; seed < command.first + command.count; ++seed) {
    const std::string problem = play_seed(command, seed, totals);
    if (!problem.empty()) {
      fmt::print("'{}' is caught by seed {:#x}: {}\n", command.mutation, seed, problem);
      return 0;
    }
  }
  fmt::print("'{}' is caught by none of {} seeds\n", command.mutation, command.count);
  return 1;
}

}  // namespace

int play_nodes(const NodesCommand& command) {
  std::signal(SIGABRT, on_abort);
  if (command.scale) {
    return measure_scale(command.nodes);
  }
  if (!command.mutation.empty()) {
    return catch_mutation(command);
  }
  const char level = command.bytes ? 'B' : 'A';
  fmt::print("{} nodes, level {}, seeds {:#x} ... {:#x}\n",
             command.nodes,
             level,
             command.first,
             command.first + command.count - 1);
  Totals totals;
  std::uint64_t failed = 0;
  for (std::uint64_t seed = command.first; seed < command.first + command.count; ++seed) {
    std::fflush(stdout);
    const std::string problem = play_seed(command, seed, totals);
    if (problem.empty()) {
      continue;
    }
    fmt::print("seed {:#x}: {}\n", seed, problem);
    fmt::print("{}", reproduce_line(command, seed));
    ++failed;
    if (!command.keep_going) {
      return 1;
    }
  }
  if (failed > 0) {
    fmt::print("{} seeds failed\n", failed);
    return 1;
  }
  fmt::print(
      "{} jobs, {} rounds, {} messages, {} events; {} closed under fire, {} had to form a round "
      "in the calm and did; all rules held\n",
      command.count,
      totals.rounds,
      totals.messages,
      totals.events,
      totals.closed,
      totals.converged);
  return 0;
}

}  // namespace muster::sim
