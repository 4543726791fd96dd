// SPDX-License-Identifier: Apache-2.0
// HPC Pack, Azure Batch and Azure Machine Learning. Azure Batch sets CCP_NODES too, so that
// variable alone does not identify HPC Pack.
#include "base/endpoint.hpp"
#include "base/text.hpp"
#include "platform/job_ports.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

std::vector<std::string> names_in(const PlatformFacts& facts, std::string_view name, char between) {
  std::vector<std::string> out;
  const auto text = facts.text(name);
  for (const std::string& part : split(text ? text->value : "", between)) {
    if (const std::string_view word = trim(part); !word.empty()) {
      out.emplace_back(word);
    }
  }
  return out;
}

}  // namespace

// "2 NODE02 80 NODE03 80": the nodes of this task. HPC Pack starts only one process for all of
// them. To get one process per node, use one task per node, all with the same command line.
std::optional<PlatformPlan> read_hpc_pack(const PlatformFacts& facts) {
  const auto job = facts.word("CCP_JOBID");
  const auto text = facts.text("CCP_NODES");
  if (!job || !text || facts.has("AZ_BATCH_JOB_ID")) {
    return std::nullopt;
  }
  const auto words = split(trim(text->value), ' ');
  const auto count = parse_int(words.front()).value_or(0);
  if (count < 1 || words.size() != static_cast<std::size_t>(count) * 2 + 1) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("hpc-pack", "HPC Pack job " + job->value);
  for (std::size_t i = 1; i < words.size(); i += 2) {
    plan.names.push_back(words[i]);
  }
  if (count > 1 && !facts.has("PMI_RANK")) {
    plan.problem = fmt::format(
        "this task has {} nodes (CCP_NODES) but one process. Split it into {} tasks of one node "
        "each, all with --nnodes={} --rdzv-backend=c10d --rdzv-endpoint={}:29400",
        count,
        count,
        count,
        plan.names.front());
  }
  return plan;
}

// A multi-instance task. Each instance finds its index by its address.
std::optional<PlatformPlan> read_azure_batch(const PlatformFacts& facts) {
  const auto master = facts.word("AZ_BATCH_MASTER_NODE");
  auto names = names_in(facts, "AZ_BATCH_HOST_LIST", ',');
  std::string origin = "AZ_BATCH_HOST_LIST";
  if (names.empty()) {
    names = names_in(facts, "AZ_BATCH_NODE_LIST", ';');
    origin = "AZ_BATCH_NODE_LIST";
  }
  const auto place = facts.my_place(names);
  const auto head =
      master ? parse_endpoint(master->value) : Result<Endpoint>(failure(Errc::usage, ""));
  if (!head || !place) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("azure-batch", "Azure Batch");
  plan.nodes = {static_cast<int>(names.size()), origin};
  plan.node = {*place, origin};
  plan.hosts = {{head->host}, master->origin};
  for (std::size_t i = 0; i < names.size(); ++i) {
    plan.host_node = names[i] == head->host ? static_cast<int>(i) : plan.host_node;
  }
  if (head->port.value_or(0) != 0) {
    plan.ports = {{*head->port}, master->origin};
  }
  plan.members = {names, origin};
  plan.names = std::move(names);
  return plan;
}

// `distribution: PyTorch`: the platform starts process_count_per_instance processes per node.
std::optional<PlatformPlan> read_azure_ml(const PlatformFacts& facts) {
  const auto world = facts.number("WORLD_SIZE", 1);
  const auto rank = facts.number("RANK");
  const auto node = facts.number("NODE_RANK");
  const auto host = facts.word("MASTER_ADDR");
  if ((!facts.has("AZUREML_RUN_ID") && !facts.has("AZUREML_EXPERIMENT_ID")) || !world || !rank ||
      !node || !host || rank->value >= world->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("azure-ml", "Azure Machine Learning");
  plan.nodes = world;
  plan.node = rank;
  if (rank->value != node->value || facts.number("LOCAL_RANK", 1)) {
    plan.problem =
        "it started one process per worker. Set process_count_per_instance to 1 (and omit "
        "--nproc-per-node or set it to the number of workers per node), or pass --platform=none";
  }
  plan.hosts = {{host->value}, host->origin};
  if (const auto port = facts.port("MASTER_PORT")) {
    plan.ports = {{port->value}, port->origin};
  }
  plan.dialled_by_workers = true;
  return plan;
}

}  // namespace muster
