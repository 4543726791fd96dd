// SPDX-License-Identifier: Apache-2.0
#include "plan/worker_macros.hpp"

#include "plan/local_rank.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace muster {
namespace {

void add_ranks(Macros& out, const LaunchConfig& config, const Assignment& a, int local_rank) {
  const bool is_task = config.task && config.task->node;
  out.emplace("rank", std::to_string(a.rank_first + local_rank));
  out.emplace("node_rank", std::to_string(is_task ? *config.task->node : a.group_rank));
  out.emplace("world_size", std::to_string(a.world_size));
}

void add_ports(Macros& out, const std::string& name, const std::vector<std::uint16_t>& ports) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (ports[i] != 0) {
      out.emplace(name + std::to_string(i), std::to_string(ports[i]));
    }
  }
}

}  // namespace

Macros worker_macros(const LaunchConfig& config, const Assignment& assignment, int local_rank) {
  Macros out{{"local_rank", std::to_string(place_on_machine(config, local_rank))}};
  const bool is_muster = config.personality == Personality::muster;
  if (is_muster) {
    add_ranks(out, config, assignment, local_rank);
  }
  add_ports(out, "port", assignment.ports);
  add_ports(out, "leader_port", assignment.leader_ports);
  if (!assignment.master_addr.empty() && (is_muster || !assignment.leader_ports.empty())) {
    const bool is_proxy = !assignment.leader_addr.empty();
    out.emplace("leader_addr", is_proxy ? assignment.leader_addr : assignment.master_addr);
  }
  return out;
}

}  // namespace muster
