// SPDX-License-Identifier: Apache-2.0
#include "platform/platforms.hpp"

#include "base/plural.hpp"
#include "base/text.hpp"
#include "platform/cloud_rows.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

PlatformPlan none(std::string what) {
  return plan_of("none", std::move(what));
}

// Lists other detected platforms, for --explain. A second row for the same platform is not listed.
void note_others(const PlatformFacts& facts, PlatformPlan& plan) {
  for (const PlatformRow& row : platform_rows()) {
    const bool listed = std::ranges::find(plan.also, row.title) != plan.also.end();
    if (row.name != plan.name && row.name != "bare" && !listed) {
      const auto other = row.read(facts);
      if (other && other->name == row.name && !other->is_partial) {
        plan.also.emplace_back(row.title);
      }
    }
  }
}

Result<PlatformPlan> unknown(std::string_view wanted) {
  std::vector<std::string> names{"auto", "none"};
  for (const PlatformRow& row : platform_rows()) {
    if (std::ranges::find(names, row.name) == names.end()) {
      names.emplace_back(row.name);
    }
  }
  return failure(
      Errc::usage,
      fmt::format("--platform={}: must be one of {}", shell_quoted(wanted), join(names, ", ")));
}

}  // namespace

const std::vector<PlatformRow>& platform_rows() {
  static const std::vector<PlatformRow> rows = [] {
    std::vector<PlatformRow> out{
        {"open-mpi", "Open MPI", read_open_mpi},
        {"hydra", "MPICH's or Intel MPI's mpiexec", read_hydra},
        {"flux", "Flux", read_flux},
        {"slurm", "Slurm", read_slurm},
        {"pals", "HPE PALS", read_pals},
        {"ray", "Ray", read_ray},
        {"htcondor", "HTCondor", read_htcondor},
        {"kubeflow", "Kubeflow", read_kubeflow},
        {"google", "Google Cloud", read_google},
        {"skypilot", "SkyPilot", read_skypilot},
        {"lepton", "Lepton", read_lepton},
        {"sagemaker", "Amazon SageMaker", read_sagemaker},
        {"azure-ml", "Azure Machine Learning", read_azure_ml},
        {"azure-batch", "Azure Batch", read_azure_batch},
        {"aws-batch", "AWS Batch", read_aws_batch},
    };
    std::ranges::move(cloud_rows(), std::back_inserter(out));
    out.insert(out.end(),
               {{"volcano", "Volcano", read_volcano_hosts},
                {"hpc-pack", "HPC Pack", read_hpc_pack},
                {"jobset", "Kubernetes JobSet", read_indexed_job},
                {"indexed-job", "Kubernetes Indexed Job", read_indexed_job},
                // Allocations without a process per node are checked last, because a launcher
                // inside an allocation is more specific.
                {"slurm", "Slurm", read_slurm_allocation},
                {"pbs", "PBS", read_pbs},
                {"cobalt", "Cobalt", read_cobalt},
                {"oar", "OAR", read_oar},
                {"lsf", "LSF", read_lsf},
                {"sge", "Grid Engine", read_sge},
                {"bare", "MASTER_ADDR and WORLD_SIZE", read_bare}});
    return out;
  }();
  return rows;
}

Result<PlatformPlan> detect(const PlatformFacts& facts, std::string_view wanted) {
  if (wanted == "none") {
    return none("--platform=none");
  }
  const bool any = wanted == "auto";
  if (any && facts.has("TORCHELASTIC_RUN_ID")) {
    return none("inside a worker of another launcher (TORCHELASTIC_RUN_ID)");
  }
  bool is_row = any;
  std::vector<std::string> warnings;
  for (const PlatformRow& row : platform_rows()) {
    is_row = is_row || row.name == wanted;
    auto plan = any || row.name == wanted ? row.read(facts) : std::nullopt;
    if (plan && plan->name != row.name) {
      continue;  // belongs to another row that uses the same function
    }
    if (plan && plan->is_partial) {
      warnings = std::move(plan->warnings);
    } else if (plan) {
      plan->warnings.insert(plan->warnings.begin(), warnings.begin(), warnings.end());
      note_others(facts, *plan);
      return std::move(*plan);
    }
  }
  if (!is_row) {
    return unknown(wanted);
  }
  if (!any) {
    return failure(Errc::usage,
                   fmt::format("--platform={}: its variables are missing or inconsistent. Use "
                               "--platform=auto to detect another platform",
                               wanted));
  }
  PlatformPlan out = none("none detected");
  out.warnings = std::move(warnings);
  return out;
}

Result<PlatformPlan> as_node(PlatformPlan plan, int node) {
  const int nodes = plan.nodes ? plan.nodes->value : 1;
  if (node < 0 || node >= nodes) {
    return failure(
        Errc::usage,
        fmt::format("--as-node={}: the job has {}, numbered from 0", node, counted(nodes, "node")));
  }
  if (plan.task) {
    return failure(Errc::usage,
                   "--as-node requires one launcher per node, but here the platform starts one per "
                   "worker");
  }
  if (plan.node) {
    plan.node = {node, "--as-node"};
    plan.is_first = plan.is_first ? std::optional(node == 0) : std::nullopt;
  }
  return plan;
}

}  // namespace muster
