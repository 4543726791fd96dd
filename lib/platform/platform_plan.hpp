// SPDX-License-Identifier: Apache-2.0
// PlatformPlan: the values that a scheduler, an MPI launcher or a cloud reports about this
// process's job, each with the variables that it was read from. Created by detect(). config/
// converts it to settings. Value type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// A value and its origin: {4, "SLURM_STEP_NUM_NODES"}.
template <class T>
struct Said {
  T value{};
  std::string origin;
  bool operator==(const Said&) const = default;
};

// This process is one of several that the platform started on this node, one per worker.
struct TaskOfNode {
  int local_rank = 0;
  std::optional<int> local_size;
  std::optional<int> node;         // index of the node
  std::optional<int> nodes;        // number of nodes
  bool has_own_gpu = false;        // each worker sees only one GPU, which therefore has index 0
  std::optional<int> cpus_here{};  // total of all tasks on this node
  bool operator==(const TaskOfNode&) const = default;
};

struct PlatformPlan {
  std::string name;  // the name accepted by --platform, such as "slurm"; or "none"
  std::string what;  // "Slurm step 8812.0"

  // The number of launchers that the platform starts: one per node, or one per worker (`task`).
  std::optional<Said<int>> nodes;
  std::optional<Said<int>> node;  // index of this launcher, from 0
  // True if this launcher is the first one. Set where several launchers may have the same index
  // because each replica numbers its pods from 0; the ranks then follow the pod names.
  std::optional<bool> is_first;
  std::vector<std::string> names;  // node names in order, if known
  // Names or addresses of all nodes that the job may use, in a form that other nodes can resolve.
  // None if the platform does not list them.
  std::optional<Said<std::vector<std::string>>> members;
  std::optional<TaskOfNode> task;

  std::optional<Said<int>> workers;  // workers of this launcher, if set explicitly
  std::optional<Said<int>> gpus;     // GPUs allocated on this node; one worker per GPU

  // The names or addresses of the launcher that hosts the rendezvous, and its candidate ports. The
  // launcher uses the first free port.
  std::optional<Said<std::vector<std::string>>> hosts;
  std::optional<Said<std::vector<std::uint16_t>>> ports;
  bool dialled_by_workers = false;  // rendezvous at MASTER_ADDR:MASTER_PORT (--rdzv-backend=static)
  int host_node = 0;                // the index of the hosting launcher

  std::optional<Said<std::string>> run_id;
  std::optional<Said<std::int64_t>> ends;  // Unix time at which the scheduler stops the job

  // A warning if the platform does not report the number of launchers; otherwise empty.
  std::string nodes_unknown;

  // Other platforms that were also detected; their values are not used.
  std::vector<std::string> also;
  std::vector<std::string> warnings;

  // Set if the platform's data is incomplete and this process must not run alone: the reason,
  // followed by the options to pass. A rendezvous address from the user solves the problem.
  std::string problem;
  // The command prefix that starts our own command line once per node: {"srun", …}.
  std::vector<std::string> starter;
  // Only some of the platform's variables are set, so they are leftovers. Only `warnings` is used.
  bool is_partial = false;
  // The values may be stale, left over in the user's shell environment. If the user requests one
  // node, one node is used.
  bool is_hint = false;

  bool operator==(const PlatformPlan&) const = default;
};

// A plan with only the platform's name and description.
[[nodiscard]] inline PlatformPlan plan_of(std::string name, std::string what) {
  PlatformPlan plan;
  plan.name = std::move(name);
  plan.what = std::move(what);
  return plan;
}

// A plan for leftover variables, with one warning about them.
[[nodiscard]] inline PlatformPlan leftovers(std::string name, std::string warning) {
  PlatformPlan plan = plan_of(std::move(name), "");
  plan.is_partial = true;
  plan.warnings.push_back(std::move(warning));
  return plan;
}

// True if the other launchers connect to this launcher.
[[nodiscard]] inline bool is_host(const PlatformPlan& plan) {
  return plan.is_first.value_or(plan.node && plan.node->value == plan.host_node);
}

}  // namespace muster
