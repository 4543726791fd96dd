// SPDX-License-Identifier: Apache-2.0
#include "plan/assignment.hpp"

#include "base/plural.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <limits>

namespace muster {
namespace {

Result<void> check(std::span<const NodeShare> members, std::size_t self) {
  std::int64_t workers = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (members[i].nproc < 1) {
      return failure(Errc::protocol,
                     fmt::format("group rank {} has {}", i, counted(members[i].nproc, "worker")));
    }
    workers += members[i].nproc;
  }
  if (workers > std::numeric_limits<int>::max()) {
    return failure(Errc::protocol, fmt::format("a round of {} workers is too large", workers));
  }
  if (self >= members.size()) {
    return failure(Errc::protocol,
                   fmt::format("group rank {} is not in a round of {}", self, members.size()));
  }
  return {};
}

}  // namespace

Result<Assignment> assign(std::span<const NodeShare> members,
                          std::size_t self,
                          RoundTimes times,
                          const Endpoint& store) {
  MUSTER_RETURN_IF_ERROR(check(members, self));
  Assignment out;
  out.group_rank = static_cast<int>(self);
  out.group_world_size = static_cast<int>(members.size());
  out.local_world_size = members[self].nproc;
  out.world_size = 0;
  out.role_world_size = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const bool before = i < self;
    const bool peer = members[i].role == members[self].role;
    out.world_size += members[i].nproc;
    out.rank_first += before ? members[i].nproc : 0;
    out.role_world_size += peer ? members[i].nproc : 0;
    out.role_rank_first += before && peer ? members[i].nproc : 0;
  }
  out.epoch = times.epoch;
  out.restart_count = times.restart_count;
  out.attempt = times.attempt;
  out.master_addr = store.host;
  out.master_port = store.port.value_or(0);
  return out;
}

Assignment assign_alone(int nproc, int attempt, const Endpoint& store) {
  const NodeShare alone{nproc, ""};
  const std::uint64_t epoch = static_cast<std::uint64_t>(attempt) + 1;
  return assign({&alone, 1}, 0, {attempt, attempt, epoch}, store).value();
}

void set_leader_ports(Assignment& assignment, std::vector<std::uint16_t> ports, bool jax) {
  assignment.jax_port = 0;
  if (jax && !ports.empty()) {  // the ports come from another host
    assignment.jax_port = ports.back();
    ports.pop_back();
  }
  assignment.leader_ports = std::move(ports);
}

}  // namespace muster
