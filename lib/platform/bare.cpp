// SPDX-License-Identifier: Apache-2.0
// Variables that many clouds set without identifying themselves: MASTER_ADDR and MASTER_PORT with
// WORLD_SIZE and RANK, which count nodes, or with NNODES and NODE_RANK. A launcher sets variables
// with the same names for its workers, but those count workers, not nodes. torchrun reads none of
// them.
#include "platform/platforms.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

// NODE_RANK with WORLD_SIZE: on some clouds WORLD_SIZE counts nodes; on most it counts workers.
PlatformPlan ambiguous(const Said<int>& world, PlatformPlan plan) {
  plan.what = "WORLD_SIZE without NNODES";
  plan.problem = fmt::format(
      "WORLD_SIZE={} may count workers or nodes (LOCAL_RANK or NODE_RANK is set too). Pass "
      "--nnodes=1 for this node only, or --nnodes, --node-rank, --master-addr and "
      "--master-port",
      world.value);
  return plan;
}

void add_meeting(const Said<std::string>& host, const PlatformFacts& facts, PlatformPlan& plan) {
  plan.hosts = {{host.value}, host.origin};
  if (const auto port = facts.port("MASTER_PORT")) {
    plan.ports = {{port->value}, port->origin};
  }
  if (auto link = facts.service_link()) {
    plan.warnings.push_back(std::move(*link));
  }
  plan.dialled_by_workers = true;
}

PlatformPlan leftovers_of(const Said<int>& count, const std::string& host) {
  return leftovers(
      "bare",
      fmt::format("ignoring {}={} and MASTER_ADDR={}: no other node can reach a loopback address",
                  count.origin,
                  count.value,
                  host));
}

}  // namespace

std::optional<PlatformPlan> read_bare(const PlatformFacts& facts) {
  const auto world = facts.number("WORLD_SIZE", 2);
  const auto host = facts.word("MASTER_ADDR");
  const auto machines = facts.machines();
  const auto node_rank = facts.number("NODE_RANK");
  const auto node = node_rank ? node_rank : facts.number("RANK");
  const auto& count = machines ? machines : world;
  if (facts.only_marked || !count || count->value == 1 || !host || !node) {
    return std::nullopt;
  }
  if (is_loopback(host->value)) {
    return leftovers_of(*count, host->value);
  }
  PlatformPlan plan = plan_of("bare", "MASTER_ADDR and " + count->origin);
  plan.is_hint = true;
  const bool is_worker = facts.has("LOCAL_RANK");
  if (is_worker ? !machines || !node_rank : node->value >= count->value) {
    return ambiguous(*count, std::move(plan));
  }
  plan.node = node;
  add_meeting(*host, facts, plan);
  if (!machines && node_rank) {
    return ambiguous(*world, std::move(plan));
  }
  plan.nodes = count;
  return plan;
}

}  // namespace muster
