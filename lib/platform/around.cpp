// SPDX-License-Identifier: Apache-2.0
#include "platform/around.hpp"

#include "platform/host_list.hpp"
#include "platform/node_files.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {

void add_ranks(const Ranks& ranks, const PlatformFacts& facts, PlatformPlan& plan) {
  plan.nodes = ranks.size;
  plan.node = ranks.rank;
  if (ranks.here.value > 1) {
    const auto list = facts.word("CUDA_VISIBLE_DEVICES");
    plan.workers = {1, ranks.here.origin};
    plan.task = TaskOfNode{.local_rank = ranks.local.value,
                           .local_size = ranks.here.value,
                           .node = std::nullopt,
                           .nodes = std::nullopt,
                           .has_own_gpu = list && list->value.find(',') == std::string::npos,
                           .cpus_here = std::nullopt};
  }
}

std::optional<Said<std::vector<std::string>>> machines_around(const PlatformFacts& facts) {
  if (const auto list = facts.text("SLURM_JOB_NODELIST")) {
    if (auto names = expand_host_list(list->value)) {
      return Said<std::vector<std::string>>{std::move(*names), list->origin};
    }
  }
  for (const auto read :
       {names_of_pbs, names_of_cobalt, names_of_oar, names_of_lsf, names_of_sge}) {
    if (auto names = read(facts)) {
      return names;
    }
  }
  return std::nullopt;
}

void check_place_of_rank_0(const PlatformFacts& facts,
                           std::string_view starter,
                           PlatformPlan& plan) {
  const std::string remedy =
      "Pass --rdzv-endpoint=HOST[:PORT] with the host of rank 0, or --platform=none for one job "
      "per node";
  if (plan.nodes->value == 1) {
    return;
  }
  if (!plan.hosts || !plan.ports) {
    plan.hosts.reset();
    plan.problem = fmt::format("{} started {} processes but does not report where rank 0 is. {}",
                               starter,
                               plan.nodes->value,
                               remedy);
    return;
  }
  const bool known = std::ranges::any_of(plan.hosts->value, [&](const std::string& host) {
    return facts.is_me(host) || host == "127.0.0.1";
  });
  if (is_host(plan) && !known) {
    plan.problem = fmt::format(
        "{} placed rank 0 on this host ({}), but the other ranks expect it on {} "
        "({}). {}",
        starter,
        facts.hostname,
        plan.hosts->value.front(),
        plan.hosts->origin,
        remedy);
  }
}

}  // namespace muster
