// SPDX-License-Identifier: Apache-2.0
// The supported platforms, and the detection of the platform that started this process. Pure. To
// add a platform, add a row to cloud_rows.cpp if it uses plain variables. Otherwise add a function
// like those declared here, and its row in platforms.cpp.
#pragma once

#include "base/error.hpp"
#include "platform/facts.hpp"
#include "platform/platform_plan.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// None if this process was not started by that platform.
using ReadPlatform = std::function<std::optional<PlatformPlan>(const PlatformFacts&)>;

struct PlatformRow {
  std::string_view name;  // for --platform
  std::string_view title;
  ReadPlatform read;
};

// The innermost launcher comes first. The first match is used.
[[nodiscard]] const std::vector<PlatformRow>& platform_rows();

// `wanted` is "auto", "none" or a row's name. Error: usage, for an unknown name, or for a platform
// whose variables are missing or inconsistent.
[[nodiscard]] Result<PlatformPlan> detect(const PlatformFacts& facts, std::string_view wanted);

// The plan of another node of the same job. Error: usage, if the node does not exist.
[[nodiscard]] Result<PlatformPlan> as_node(PlatformPlan plan, int node);

std::optional<PlatformPlan> read_open_mpi(const PlatformFacts& facts);
std::optional<PlatformPlan> read_hydra(const PlatformFacts& facts);
std::optional<PlatformPlan> read_flux(const PlatformFacts& facts);
std::optional<PlatformPlan> read_slurm(const PlatformFacts& facts);
std::optional<PlatformPlan> read_pals(const PlatformFacts& facts);
std::optional<PlatformPlan> read_htcondor(const PlatformFacts& facts);
std::optional<PlatformPlan> read_pbs(const PlatformFacts& facts);
std::optional<PlatformPlan> read_cobalt(const PlatformFacts& facts);
std::optional<PlatformPlan> read_oar(const PlatformFacts& facts);
std::optional<PlatformPlan> read_lsf(const PlatformFacts& facts);
std::optional<PlatformPlan> read_sge(const PlatformFacts& facts);
std::optional<PlatformPlan> read_google(const PlatformFacts& facts);
std::optional<PlatformPlan> read_skypilot(const PlatformFacts& facts);
std::optional<PlatformPlan> read_lepton(const PlatformFacts& facts);
std::optional<PlatformPlan> read_sagemaker(const PlatformFacts& facts);
std::optional<PlatformPlan> read_azure_ml(const PlatformFacts& facts);
std::optional<PlatformPlan> read_azure_batch(const PlatformFacts& facts);
std::optional<PlatformPlan> read_aws_batch(const PlatformFacts& facts);
std::optional<PlatformPlan> read_hpc_pack(const PlatformFacts& facts);
std::optional<PlatformPlan> read_kubeflow(const PlatformFacts& facts);
std::optional<PlatformPlan> read_volcano_hosts(const PlatformFacts& facts);
std::optional<PlatformPlan> read_indexed_job(const PlatformFacts& facts);
std::optional<PlatformPlan> read_ray(const PlatformFacts& facts);
std::optional<PlatformPlan> read_slurm_allocation(const PlatformFacts& facts);
std::optional<PlatformPlan> read_bare(const PlatformFacts& facts);

}  // namespace muster
