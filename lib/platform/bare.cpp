// SPDX-License-Identifier: Apache-2.0
// The variables that many clouds give a machine and no marker besides: MASTER_ADDR, MASTER_PORT,
// WORLD_SIZE and RANK or NODE_RANK, counting machines. A launcher gives the same names to a worker,
// where they count workers; it is recognised by LOCAL_RANK.
#include "platform/platforms.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

bool is_loopback(const std::string& host) {
  return host == "localhost" || host.starts_with("127.") || host == "::1";
}

PlatformPlan ambiguous(const Said<int>& world) {
  PlatformPlan plan = plan_of("bare", "the variables of a worker");
  plan.is_hint = true;
  plan.problem = fmt::format(
      "WORLD_SIZE={} counts workers here, since LOCAL_RANK is set as well or NODE_RANK is not "
      "RANK, "
      "so the number of machines is unknown; give --nnodes, --node-rank, --master-addr and "
      "--master-port",
      world.value);
  return plan;
}

}  // namespace

std::optional<PlatformPlan> read_bare(const PlatformFacts& facts) {
  const auto world = facts.number("WORLD_SIZE", 2);
  const auto host = facts.word("MASTER_ADDR");
  const auto rank = facts.number("RANK");
  const auto node = facts.number("NODE_RANK") ? facts.number("NODE_RANK") : rank;
  if (!world || !host || !node) {
    return std::nullopt;
  }
  if (is_loopback(host->value)) {
    return leftovers(
        "bare",
        fmt::format(
            "ignoring WORLD_SIZE={} and MASTER_ADDR={}: no other machine reaches that address",
            world->value,
            host->value));
  }
  const auto machines = facts.number("NNODES", 1);
  const bool counts_workers = facts.has("LOCAL_RANK") || (rank && rank->value != node->value);
  if (!machines && (counts_workers || node->value >= world->value)) {
    return ambiguous(*world);
  }
  PlatformPlan plan = plan_of("bare", "MASTER_ADDR and WORLD_SIZE");
  plan.is_hint = true;
  plan.nodes = machines ? *machines : *world;
  plan.node = node;
  plan.hosts = {{host->value}, host->origin};
  if (const auto port = facts.port("MASTER_PORT")) {
    plan.ports = {{port->value}, port->origin};
  }
  if (auto link = facts.service_link()) {
    plan.warnings.push_back(std::move(*link));
  }
  plan.dialled_by_workers = true;
  return plan;
}

}  // namespace muster
