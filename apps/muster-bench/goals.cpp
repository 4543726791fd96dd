// SPDX-License-Identifier: Apache-2.0
#include "apps/muster-bench/goals.hpp"

#include "apps/muster-bench/names.hpp"

#include <fmt/format.h>

namespace muster::bench {
namespace {

using namespace names;

// `over` is empty when the goal is about the cell itself; else it is the row to compare with.
struct Goal {
  std::string text;
  std::string table;
  std::string row;
  std::string over;
  std::string column;
  bool at_most = true;
  double limit = 0;
};

void add_launch_goals(std::vector<Goal>& goals) {
  goals.push_back(
      {"2 × true: time over mpiexec.hydra's", "launch", kMuster, kHydra, "2", true, 0.5});
  goals.push_back(
      {"2 × true: time over the bare program's", "launch", kMuster, kFloor, "2", true, 3});
  goals.push_back(
      {"64 × true: time over the bare program's", "launch", kMuster, kFloor, "64", true, 1.5});
  goals.push_back(
      {"64 × true: time over mpiexec.hydra's", "launch", kMuster, kHydra, "64", true, 1});
  goals.push_back({"--help, ms", "help", kMuster, "", "--help", true, 3});
  goals.push_back({"memory of guard and agent, MB", "memory", kMuster, "", "peak", true, 8});
  goals.push_back(
      {"crash → 8 workers running again, ms", "restart", kMuster, "", "8 workers", true, 10});
}

void add_node_goals(std::vector<Goal>& goals) {
  for (const std::string agents : {"2", "8", "32"}) {
    const auto what = fmt::format("{} agents × true: time over ", agents);
    goals.push_back({what + "torchrun's", "nodes", kMuster, kTorchrun, agents, true, 1.0 / 300});
    goals.push_back({what + "mpiexec.hydra's", "nodes", kMuster, kHydra, agents, true, 1});
  }
  const auto within = [&](const std::string& change, double limit) {
    goals.push_back(
        {change + " → all running again, ms", "nodes-recovery", kMuster, "", change, true, limit});
  };
  within("worker dies, 4 agents", 20);
  within("agent dies, 4 agents", 100);
  within("host's agent dies, 4 agents", 250);
  within("agent joins, 1 → 2", 50);
  const auto crowd = [&](const std::string& row, const std::string& column, double limit) {
    goals.push_back({row + ", " + column + ", ms", "crowd", row, "", column, true, limit});
  };
  crowd("1000 nodes", "all started", 1000);
  crowd("1000 nodes", "regrouped after one loss", 500);
  crowd("10000 nodes", "all started", 10000);
  goals.push_back(
      {"1000 idle nodes, % of a core", "crowd-idle", "1000 nodes", "", "% of a core", true, 1});
}

void add_rate_goals(std::vector<Goal>& goals) {
  for (const std::string operation : {"get", "set", "add"}) {
    for (const std::string clients : {"1", "8", "32", "128"}) {
      const auto table = "store-" + operation;
      const auto what = fmt::format(
          "store, {} by {} client{}: rate over ", operation, clients, clients == "1" ? "" : "s");
      goals.push_back({what + "redis-server's", table, kStore, kRedis, clients, false, 1});
      goals.push_back({what + "PyTorch's", table, kStore, kTorchStore, clients, false, 1});
      goals.push_back({what + "the bare echo's", table, kStore, kEcho, clients, false, 0.9});
    }
  }
}

void add_collective_goals(std::vector<Goal>& goals) {
  const auto ratio = [&](const std::string& row, const std::string& column, double limit) {
    goals.push_back({fmt::format("all-reduce of {}: {}", column, row),
                     "collective-ratios",
                     row,
                     "",
                     column,
                     false,
                     limit});
  };
  ratio(kGlooOverPrivate, "25 MiB", 8);
  ratio(kGlooOverLibrary, "25 MiB", 20);
  for (const std::string size : {"1 MiB", "4 MiB", "16 MiB", "25 MiB", "100 MiB"}) {
    ratio(kMpiOverPrivate, size, 2.5);
  }
  ratio(kMemcpyOverPrivate, "25 MiB", 0.8);
  ratio(kOpenMpiOverPrivate, "4 B", 1);
  ratio(kOpenMpiOverPrivate, "1 KiB", 1);
  ratio(kGlooOverTcp, "25 MiB", 2.5);
  ratio(kGlooOverTcp, "1 KiB", 30);
  const auto figure = [&](const std::string& text,
                          const std::string& table,
                          const std::string& row,
                          const std::string& column,
                          double limit) {
    goals.push_back({text, table, row, "", column, true, limit});
  };
  figure("all-reduce of 4 B, µs", "collective", kPrivate, "4 B", 0.6);
  figure("4 ranks, all-reduce of 1 KiB, µs", "collective-4", kPrivate, "1 KiB", 60);
  goals.push_back(
      {"all-reduce of 1 MiB, GB/s", "collective-bandwidth", kPrivate, "", "1 MiB", false, 8});
  goals.push_back(
      {"all-reduce of 16 MiB, GB/s", "collective-bandwidth", kPrivate, "", "16 MiB", false, 6});
  for (const auto* const memory : {kPrivate, kLibrary}) {
    figure(fmt::format("bf16 over f32 of the same count: {}", memory),
           "collective-types-ratios",
           memory,
           "bf16",
           0.6);
  }
  figure("a rank of 2 GiB dies → all others know, µs",
         "collective-death",
         kPrivate,
         "victim of 2 GiB",
         2000);
  figure("GradientSync: not hidden by a backward pass on a device, %",
         "collective-overlap",
         kGradientSync,
         "backward on a device",
         15);
  figure("GPU: our call over the bare NCCL call, µs", "collective-gpu", kNccl, "added", 2);
}

void add_other_goals(std::vector<Goal>& goals) {
  goals.push_back({"store, get beside 4,000 idle: rate over the bare echo's",
                   "store-idle",
                   kStore,
                   kEcho,
                   "32",
                   false,
                   0.9});
  goals.push_back({"store, get beside 4,000 idle: rate over PyTorch's",
                   "store-idle",
                   kStore,
                   kTorchStore,
                   "32",
                   false,
                   1});
  goals.push_back({"store, get 8 × 64 deep, requests a second",
                   "store-deep",
                   kStore,
                   "",
                   "get 8 × 64",
                   false,
                   4e6});
  goals.push_back({"store, streamed SETs of 8 clients: rate over PyTorch's server's",
                   "store-deep",
                   kStore,
                   kTorchStore,
                   "SET stream × 8",
                   false,
                   1});
  goals.push_back(
      {"10,000 clients connect, set, get: ms", "storm", kStore, "", "10,000 clients", true, 3000});
  goals.push_back({"server memory of an idle connection, bytes",
                   "storm-memory",
                   kStore,
                   "",
                   "bytes each",
                   true,
                   4096});
  goals.push_back(
      {"log pump: rate over tee's", "pump", kMuster, kTee, "file and console", false, 0.6});
}

std::optional<double> measured(const Report& report, const Goal& goal) {
  const auto own = summary_of(find_cell(report, goal.table, goal.row, goal.column));
  if (!own || goal.over.empty()) {
    return own ? std::optional(own->median) : std::nullopt;
  }
  const auto other = summary_of(find_cell(report, goal.table, goal.over, goal.column));
  return other && other->median > 0 ? std::optional(own->median / other->median) : std::nullopt;
}

std::string answer(const Verdict& verdict) {
  if (!verdict.measured) {
    return "not measured";
  }
  return verdict.met() ? "yes" : "**no**";
}

}  // namespace

std::vector<Verdict> judge(const Report& report) {
  std::vector<Goal> goals;
  add_launch_goals(goals);
  add_node_goals(goals);
  add_rate_goals(goals);
  add_collective_goals(goals);
  add_other_goals(goals);
  std::vector<Verdict> verdicts;
  verdicts.reserve(goals.size());
  for (const auto& goal : goals) {
    verdicts.push_back({goal.table, goal.text, goal.limit, goal.at_most, measured(report, goal)});
  }
  return verdicts;
}

std::string markdown_of(const std::vector<Verdict>& verdicts) {
  std::string text = "| goal | measured | wanted | met |\n|---|---|---|---|\n";
  for (const auto& verdict : verdicts) {
    text += fmt::format("| {} | {} | {} {} | {} |\n",
                        verdict.text,
                        verdict.measured ? readable(*verdict.measured) : "–",
                        verdict.at_most ? "≤" : "≥",
                        readable(verdict.limit),
                        answer(verdict));
  }
  return text;
}

}  // namespace muster::bench
