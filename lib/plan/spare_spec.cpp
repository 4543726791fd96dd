// SPDX-License-Identifier: Apache-2.0
#include "base/check.hpp"
#include "plan/log_layout.hpp"
#include "plan/process_specs.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace muster {
namespace {

// Variables of a single worker. Without MUSTER_AGENT, a spare worker cannot report as a worker.
constexpr std::array<std::string_view, 8> kOfOneWorker{"RANK",
                                                       "LOCAL_RANK",
                                                       "ROLE_RANK",
                                                       "SLURM_PROCID",
                                                       "SLURM_LOCALID",
                                                       "TORCHELASTIC_ERROR_FILE",
                                                       "MUSTER_AGENT",
                                                       "MUSTER_EPOCH"};
constexpr std::string_view kThreads = "OMP_NUM_THREADS";

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

// The variables of the first worker that all workers have.
std::vector<std::string> common_environment(const std::vector<ProcessSpec>& specs) {
  const auto is_common = [&](const std::string& variable) {
    return std::ranges::all_of(specs, [&](const ProcessSpec& spec) {
      return std::ranges::find(spec.environment, variable) != spec.environment.end();
    });
  };
  std::vector<std::string> out;
  for (const std::string& variable : specs.front().environment) {
    const std::string_view name = name_of(variable);
    const bool is_own = std::ranges::find(kOfOneWorker, name) != kOfOneWorker.end();
    if (!is_own && (name == kThreads || is_common(variable))) {
      out.push_back(variable);
    }
  }
  out.emplace_back("MUSTER_SPARE=1");
  return out;
}

// Output goes to a file if the first worker's output does. The console shows no output of spare
// workers, but their last lines explain why they exit.
OutputPlan output_of(const OutputPlan& worker, const std::string& path, OutputKind without_file) {
  if (worker.kind == OutputKind::file) {
    return {.kind = OutputKind::file, .path = path};
  }
  return {.kind = without_file};
}

}  // namespace

Result<ProcessSpec> spare_spec(const std::vector<ProcessSpec>& specs,
                               const PlanContext& context,
                               int attempt,
                               int number) {
  MUSTER_CHECK(!specs.empty());
  const ProcessSpec& first = specs.front();
  if (std::ranges::any_of(specs,
                          [&](const ProcessSpec& spec) { return spec.argv != first.argv; })) {
    return failure(Errc::not_possible, "the command line depends on the rank");
  }
  const std::string folder = spare_dir(context.run_dir, attempt, number);
  ProcessSpec out;
  out.local_rank = static_cast<int>(specs.size()) + number;
  out.argv = first.argv;
  out.environment = common_environment(specs);
  out.warm = first.warm;
  out.standard_output =
      output_of(first.standard_output, folder + "/stdout.log", OutputKind::discard);
  out.standard_error = output_of(first.standard_error, folder + "/stderr.log", OutputKind::keep);
  return out;
}

}  // namespace muster
