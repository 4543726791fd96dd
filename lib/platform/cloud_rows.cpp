// SPDX-License-Identifier: Apache-2.0
#include "platform/cloud_rows.hpp"

#include <fmt/core.h>

#include <array>

namespace muster {
namespace {

constexpr std::array kRows{
    // WORLD_SIZE is the number of workers; RANK belongs to a worker.
    CloudRow{.name = "ailines",
             .title = "AILines",
             .marker = "WORKER_PER_NODE",
             .marker_too = "NODE_RANK",
             .machines = "WORLD_SIZE",
             .machine = "NODE_RANK",
             .workers = "WORKER_PER_NODE",
             .machines_counts_workers = true,
             .host = "MASTER_ADDR",
             .port = "MASTER_PORT"},
    // WORLD_SIZE counts workers, so muster does not read it.
    CloudRow{.name = "runpod",
             .title = "RunPod Instant Cluster",
             .marker = "PRIMARY_ADDR",
             .marker_too = "NUM_TRAINERS",
             .machines = "NUM_NODES",
             .machine = "NODE_RANK",
             .workers = "NUM_TRAINERS",
             .host = "PRIMARY_ADDR",
             .port = "PRIMARY_PORT"},
    CloudRow{.name = "dstack",
             .title = "dstack",
             .marker = "DSTACK_NODES_NUM",
             .machines = "DSTACK_NODES_NUM",
             .machine = "DSTACK_NODE_RANK",
             .gpus = "DSTACK_GPUS_PER_NODE",
             .host = "DSTACK_MASTER_NODE_IP",
             .run_id = "DSTACK_RUN_ID",
             .dialled_by_workers = false},
    // In the following rows WORLD_SIZE is the number of nodes.
    CloudRow{.name = "pai-dlc",
             .title = "Alibaba PAI-DLC",
             .marker = "NPROC_PER_NODE",
             .machines = "WORLD_SIZE",
             .machine = "RANK",
             .workers = "NPROC_PER_NODE",
             .host = "MASTER_ADDR",
             .port = "MASTER_PORT",
             .is_hint = true},
    CloudRow{.name = "volcano",
             .title = "Volcano",
             .marker = "VC_TASK_INDEX",
             .machines = "WORLD_SIZE",
             .machine = "RANK",
             .host = "MASTER_ADDR",
             .port = "MASTER_PORT"},
    CloudRow{.name = "leader-worker-set",
             .title = "Kubernetes LeaderWorkerSet",
             .marker = "LWS_LEADER_ADDRESS",
             .machines = "LWS_GROUP_SIZE",
             .machine = "LWS_WORKER_INDEX",
             .host = "LWS_LEADER_ADDRESS",
             .dialled_by_workers = false},
    // A barrier stage: each task is a separate process with at most one GPU; a host runs several.
    CloudRow{.name = "spark",
             .title = "a Spark barrier task",
             .marker = "SPARK_LOCAL_DIRS",
             .machines = "WORLD_SIZE",
             .machine = "RANK",
             .workers_fixed = 1,
             .host = "MASTER_ADDR",
             .port = "MASTER_PORT"},
};

std::optional<Said<int>> machines_of(const CloudRow& row,
                                     const std::optional<Said<int>>& workers,
                                     const PlatformFacts& facts) {
  auto count = facts.number(row.machines, 1);
  if (!count || !row.machines_counts_workers) {
    return count;
  }
  if (!workers || count->value % workers->value != 0) {
    return std::nullopt;
  }
  return Said<int>{count->value / workers->value, count->origin + " / " + workers->origin};
}

}  // namespace

std::optional<PlatformPlan> read_cloud(const CloudRow& row, const PlatformFacts& facts) {
  if (!facts.has(row.marker) || (!row.marker_too.empty() && !facts.has(row.marker_too))) {
    return std::nullopt;
  }
  if (row.is_hint && facts.only_marked) {
    return std::nullopt;
  }
  const auto workers = row.workers.empty() ? std::nullopt : facts.number(row.workers, 1);
  const auto machines = machines_of(row, workers, facts);
  const auto machine = facts.number(row.machine);
  const auto host = facts.word(row.host);
  if (!machines || !machine || machine->value >= machines->value ||
      (!host && machines->value > 1)) {
    return std::nullopt;
  }
  // If the counts differ, another program has set these variables, and its WORLD_SIZE counts
  // workers.
  const auto said = facts.machines();
  if (row.is_hint && said && said->value != machines->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of(std::string(row.name), std::string(row.title));
  plan.is_hint = row.is_hint;
  plan.nodes = machines;
  plan.node = machine;
  plan.workers = workers;
  if (row.workers_fixed != 0) {
    plan.workers = {row.workers_fixed, plan.what};
  }
  plan.gpus = row.gpus.empty() ? std::nullopt : facts.number(row.gpus, 1);
  plan.run_id = row.run_id.empty() ? std::nullopt : facts.word(row.run_id);
  if (host) {
    plan.hosts = {{host->value}, host->origin};
  }
  if (const auto port = row.port.empty() ? std::nullopt : facts.port(row.port)) {
    plan.ports = {{port->value}, port->origin};
  }
  if (auto link = facts.service_link()) {
    plan.warnings.push_back(std::move(*link));
  }
  plan.dialled_by_workers = row.dialled_by_workers;
  return plan;
}

std::vector<PlatformRow> cloud_rows() {
  std::vector<PlatformRow> out;
  for (const CloudRow& row : kRows) {
    out.push_back({row.name, row.title, [&row](const PlatformFacts& facts) {
                     return read_cloud(row, facts);
                   }});
  }
  return out;
}

}  // namespace muster
