// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/blocks.hpp"
#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/names.hpp"
#include "apps/muster-bench/scratch.hpp"
#include "apps/muster-bench/series.hpp"
#include "apps/muster-bench/trace.hpp"

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>

namespace muster::bench {
namespace {

using namespace names;

constexpr int kWorkers = 8;
constexpr int kPatienceMs = 120'000;
constexpr int kCrashes = 3;  // in each launch

std::string contents_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

Result<std::vector<double>> crash_under(const std::string& launcher, const Peers& peers, int seed) {
  const Scratch scratch;
  const auto notes = scratch.path("notes");
  auto child = Child::start({{launcher,
                              fmt::format("--nproc-per-node={}", kWorkers),
                              fmt::format("--max-restarts={}", kCrashes),
                              "--no-python",
                              peers.floor,
                              "crash",
                              notes,
                              std::to_string(kCrashes),
                              std::to_string(seed)},
                             peers.environ});
  if (!child) {
    return std::unexpected(child.error());
  }
  const int code = child->wait(kPatienceMs);
  auto recoveries = recoveries_of(contents_of(notes), kWorkers);
  if (code != 0 || recoveries.empty()) {
    return failure(
        Errc::system,
        fmt::format(
            "{} ended with {} after {} complete restarts", launcher, code, recoveries.size()));
  }
  return recoveries;
}

Contestant crashing(const std::string& name,
                    const std::string& launcher,
                    const Peers& peers,
                    bool slow) {
  return {name, !launcher.empty(), slow, [&peers, launcher, seed = 0]() mutable {
            return crash_under(launcher, peers, seed++);
          }};
}

}  // namespace

std::vector<Table> measure_restart(const Peers& peers, const Effort& effort) {
  auto table = Table::of("restart",
                         "A worker's crash until all workers run again",
                         "ms",
                         {fmt::format("{} workers", kWorkers)});
  table.note = fmt::format(
      "{} crashes in each launch, at varied phases of any polling interval; no other launcher here "
      "restarts workers.",
      kCrashes);
  run_column(table,
             0,
             {crashing(kMuster, peers.muster, peers, false),
              crashing(kTorchrun, peers.torchrun, peers, true),
              crashing(kFtLauncher, peers.ft_launcher, peers, true)},
             effort);
  return {table};
}

}  // namespace muster::bench
