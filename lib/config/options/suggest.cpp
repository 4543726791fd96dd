// SPDX-License-Identifier: Apache-2.0
#include "config/options/suggest.hpp"

#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

namespace muster {
namespace {

// Variables of the libraries that workers use. The launcher does not check them.
constexpr std::string_view kLibraryPrefix = "MUSTER_COLLECTIVE_";

// True for other launchers' names for --nproc-per-node.
bool means_workers(std::string_view name) {
  static constexpr std::array<std::string_view, 9> kNames{
      "n", "np", "nprocs", "nproc", "num-processes", "num-workers", "gpus", "num-gpus", "ngpus"};
  return std::ranges::find(kNames, name) != kNames.end();
}

// The maximum edit distance of a suggestion, for example two for a name of six letters.
std::size_t largest_distance(std::string_view name) {
  return std::max<std::size_t>(1, name.size() / 3);
}

std::string_view only_continuation(std::string_view name,
                                   const std::vector<std::string_view>& candidates) {
  std::string_view found;
  for (const std::string_view candidate : candidates) {
    const bool continues = candidate.size() > name.size() && candidate.starts_with(name) &&
                           (candidate[name.size()] == '-' || candidate[name.size()] == '_');
    if (continues && !found.empty()) {
      return {};
    }
    found = continues ? candidate : found;
  }
  return found;
}

template <typename IsCandidate>
const Option* nearest_of(std::string_view name, IsCandidate is_candidate) {
  if (means_workers(name)) {
    return &option(OptionId::nproc_per_node);
  }
  std::vector<std::string_view> candidates;
  for (const Option& row : all_options()) {
    if (is_candidate(row)) {
      candidates.push_back(row.name);
    }
  }
  const std::string_view nearest = nearest_name(name, candidates);
  return nearest.empty() ? nullptr : find_option(nearest);
}

// "PET_NNODE" -> "nnode"
std::string option_name(std::string_view variable) {
  std::string name = to_lower(variable.substr(variable.find('_') + 1));
  std::ranges::replace(name, '_', '-');
  return name;
}

std::string variable_of(const Option& row, bool pet) {
  return pet ? pet_variable(row) : muster_variable(row);
}

}  // namespace

std::string_view nearest_name(std::string_view name,
                              const std::vector<std::string_view>& candidates) {
  std::string_view best;
  std::size_t best_distance = largest_distance(name) + 1;
  for (const std::string_view candidate : candidates) {
    if (const auto distance = edit_distance(name, candidate); distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? only_continuation(name, candidates) : best;
}

const Option* nearest_option(std::string_view name, Personality personality) {
  return nearest_of(
      name, [&](const Option& row) { return !row.has(kHidden) && is_offered(row, personality); });
}

const Option* nearest_setting(std::string_view name, Personality personality) {
  return nearest_of(name, [&](const Option& row) {
    return row.kind != ValueKind::action && is_offered(row, personality);
  });
}

std::string_view instead_of_foreign(std::string_view name) {
  static constexpr auto kForeign = std::to_array<std::pair<std::string_view, std::string_view>>({
      {"num-machines", "use --nnodes=N"},
      {"machine-rank", "use --node-rank=N"},
      {"num-processes",
       "use --nproc-per-node=N, the number of workers per node (num_processes divided by the "
       "number "
       "of nodes)"},
      {"main-process-ip", "use --master-addr=ADDRESS"},
      {"main-process-port", "use --master-port=PORT"},
      {"gpu-ids", "set CUDA_VISIBLE_DEVICES=0,1"},
      {"num-cpu-threads-per-process", "set OMP_NUM_THREADS=N"},
      {"machinefile", "use --hostfile=FILE"},
      {"f", "use --hostfile=FILE"},
      {"genv", "use -x NAME=VALUE"},
      {"launcher-exec", "use --rsh=COMMAND"},
      {"npernode", "use --nproc-per-node=N"},
      {"ppn", "use --nproc-per-node=N"},
  });
  const auto* const found =
      std::ranges::find(kForeign, name, &std::pair<std::string_view, std::string_view>::first);
  return found == kForeign.end() ? std::string_view() : found->second;
}

std::vector<std::string> mistyped_variables(const Environ& environ, Personality personality) {
  std::vector<std::string> warnings;
  for (const auto& [variable, value] : environ.all()) {
    const bool pet = variable.starts_with("PET_");
    if ((!pet && !variable.starts_with("MUSTER_")) || variable.starts_with(kLibraryPrefix)) {
      continue;
    }
    const std::string name = option_name(variable);
    if (find_option(name) != nullptr) {
      continue;  // muster reads this variable, or the option has no PET_ variable
    }
    const Option* meant = nearest_of(name, [&](const Option& row) {
      return !variable_of(row, pet).empty() && is_offered(row, personality);
    });
    if (meant != nullptr) {
      warnings.push_back(fmt::format(
          "ignoring unknown variable {}; did you mean {}?", variable, variable_of(*meant, pet)));
    }
  }
  return warnings;
}

}  // namespace muster
