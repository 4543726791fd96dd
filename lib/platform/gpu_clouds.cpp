// SPDX-License-Identifier: Apache-2.0
// SkyPilot and Lepton. The first node's name must be extracted from a list or composed.
#include "base/text.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

namespace muster {

// SKYPILOT_NODE_IPS has one address per line, in rank order.
std::optional<PlatformPlan> read_skypilot(const PlatformFacts& facts) {
  const auto nodes = facts.number("SKYPILOT_NUM_NODES", 1);
  const auto node = facts.number("SKYPILOT_NODE_RANK");
  const auto addresses = facts.text("SKYPILOT_NODE_IPS");
  if (!nodes || !node || !addresses || node->value >= nodes->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("skypilot", "SkyPilot");
  for (const std::string& line : split(addresses->value, '\n')) {
    if (!trim(line).empty()) {
      plan.names.emplace_back(trim(line));
    }
  }
  if (plan.names.size() != static_cast<std::size_t>(nodes->value)) {
    return std::nullopt;
  }
  plan.nodes = nodes;
  plan.node = node;
  plan.gpus = facts.number("SKYPILOT_NUM_GPUS_PER_NODE", 1);
  plan.hosts = {{plan.names.front()}, addresses->origin};
  plan.members = {plan.names, addresses->origin};
  plan.run_id = facts.word("SKYPILOT_TASK_ID");
  return plan;
}

// Other nodes reach worker 0 at PREFIX-0.SUBDOMAIN.
std::optional<PlatformPlan> read_lepton(const PlatformFacts& facts) {
  const auto nodes = facts.number("LEPTON_JOB_TOTAL_WORKERS", 1);
  const auto node = facts.number("LEPTON_JOB_WORKER_INDEX");
  const auto prefix = facts.word("LEPTON_JOB_WORKER_PREFIX");
  const auto domain = facts.word("LEPTON_SUBDOMAIN");
  if (!nodes || !node || !prefix || !domain || node->value >= nodes->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("lepton", "Lepton");
  plan.nodes = nodes;
  plan.node = node;
  plan.gpus = facts.number("LEPTON_RESOURCE_ACCELERATOR_NUM", 1);
  plan.hosts = {{fmt::format("{}-0.{}", prefix->value, domain->value)},
                fmt::format("{}, {}", prefix->origin, domain->origin)};
  plan.run_id = facts.word("LEPTON_JOB_NAME");
  return plan;
}

}  // namespace muster
