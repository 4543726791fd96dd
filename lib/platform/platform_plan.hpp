// SPDX-License-Identifier: Apache-2.0
// PlatformPlan: what a scheduler, an MPI launcher or a cloud says about the job that this process
// is started in, each value with the variables that said it. Made by detect(); config/ turns it
// into settings. Value type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// A value and where it comes from: {4, "SLURM_STEP_NUM_NODES"}.
template <class T>
struct Said {
  T value{};
  std::string origin;
  bool operator==(const Said&) const = default;
};

// This process is one of several that the platform started on this machine: one for each worker.
struct TaskOfNode {
  int local_rank = 0;
  std::optional<int> local_size;
  std::optional<int> node;         // index of the machine
  std::optional<int> nodes;        // machines
  bool has_own_gpu = false;        // it sees one GPU alone, whose index is therefore 0
  std::optional<int> cpus_here{};  // of all tasks on this machine together
  bool operator==(const TaskOfNode&) const = default;
};

struct PlatformPlan {
  std::string name;  // as for --platform: "slurm"; "none"
  std::string what;  // "Slurm step 8812.0"

  // Launchers that the platform starts, one for each machine, or one for each worker (`task`).
  std::optional<Said<int>> nodes;
  std::optional<Said<int>> node;  // the place of this one among them, from 0
  // Whether this launcher is the first, where others may have its place as well: places count anew
  // in each replica, and ranks go by name.
  std::optional<bool> is_first;
  std::vector<std::string> names;  // of the machines in their order, where they are known
  // Names or addresses of all machines that the job may use, as they resolve. None: not listed.
  std::optional<Said<std::vector<std::string>>> members;
  std::optional<TaskOfNode> task;

  std::optional<Said<int>> workers;  // of this launcher, said outright
  std::optional<Said<int>> gpus;     // given to this machine: a worker for each

  // Where the launcher that hosts can be reached: under these names or addresses, at one of these
  // ports. Several ports are candidates: the host takes the first that is free.
  std::optional<Said<std::vector<std::string>>> hosts;
  std::optional<Said<std::vector<std::uint16_t>>> ports;
  bool dialled_by_workers =
      false;          // the place is MASTER_ADDR and MASTER_PORT: --rdzv-backend=static
  int host_node = 0;  // the place of the launcher that hosts

  std::optional<Said<std::string>> run_id;
  std::optional<Said<std::int64_t>> ends;  // unix time at which the scheduler ends the job

  // What to say where nobody tells how many launchers there are; empty: the platform does.
  std::string nodes_unknown;

  // Other platforms that are to be seen here too; their values are not used.
  std::vector<std::string> also;
  std::vector<std::string> warnings;

  // Why this process must not run alone though nothing else can be made of what the platform says:
  // one sentence that ends with what to type. Empty where the plan is whole. A rendezvous that the
  // user gives is an answer to it.
  std::string problem;
  // The words before our own command line that start one launcher on each machine: {"srun", …}.
  std::vector<std::string> starter;
  // Some of its variables are here, but no whole: somebody's leftovers. Only `warnings` counts.
  bool is_partial = false;
  // What is said may be a leftover in somebody's shell: who asks for one machine gets one.
  bool is_hint = false;

  bool operator==(const PlatformPlan&) const = default;
};

// A plan that says nothing yet but who speaks.
[[nodiscard]] inline PlatformPlan plan_of(std::string name, std::string what) {
  PlatformPlan plan;
  plan.name = std::move(name);
  plan.what = std::move(what);
  return plan;
}

// Leftovers, and the one line about them.
[[nodiscard]] inline PlatformPlan leftovers(std::string name, std::string warning) {
  PlatformPlan plan = plan_of(std::move(name), "");
  plan.is_partial = true;
  plan.warnings.push_back(std::move(warning));
  return plan;
}

// Whether this launcher is the one that the others look for.
[[nodiscard]] inline bool is_host(const PlatformPlan& plan) {
  return plan.is_first.value_or(plan.node && plan.node->value == plan.host_node);
}

}  // namespace muster
