// SPDX-License-Identifier: Apache-2.0
// Open MPI 4 and 5: mpirun started this process, and its ranks are the node indices. Open MPI does
// not report where rank 0 is. We assume mpirun's own host (OMPI_MCA_orte_hnp_uri) or the first node
// of the surrounding job, and rank 0 checks this assumption. OMPI_COMM_WORLD_NODE_RANK is not a
// node index.
#include "base/text.hpp"
#include "platform/around.hpp"
#include "platform/job_ports.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

constexpr std::size_t kHostsTried = 4;

// Extracts the addresses in "405929984.0;tcp://10.77.0.10,192.168.1.2:34647". IPv6 entries are
// "tcp6://[…]:port".
std::vector<std::string> addresses_in(std::string_view uri) {
  std::vector<std::string> out;
  for (const std::string& part : split(uri, ';')) {
    static constexpr std::string_view kTcp = "tcp://";
    if (!part.starts_with(kTcp)) {
      continue;
    }
    const std::string_view hosts = std::string_view(part).substr(kTcp.size());
    for (std::string& host : split(hosts.substr(0, hosts.rfind(':')), ',')) {
      if (!host.empty() && !host.starts_with("127.") && out.size() < kHostsTried) {
        out.push_back(std::move(host));
      }
    }
  }
  return out;
}

void add_hosts(const PlatformFacts& facts, PlatformPlan& plan) {
  if (auto around = machines_around(facts)) {
    plan.hosts = {{around->value.front()}, around->origin};
    plan.members = around;
  } else if (const auto uri = facts.text("OMPI_MCA_orte_hnp_uri")) {
    if (auto found = addresses_in(uri->value); !found.empty()) {
      plan.hosts = {std::move(found), uri->origin};
    }
  }
}

// A value that all ranks of the job share and no other job has.
std::optional<Said<std::string>> job_name(const PlatformFacts& facts) {
  for (const auto name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}) {
    if (auto found = facts.word(name)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<PlatformPlan> read_open_mpi(const PlatformFacts& facts) {
  const auto size = facts.number("OMPI_COMM_WORLD_SIZE", 1);
  const auto rank = facts.number("OMPI_COMM_WORLD_RANK");
  const auto local = facts.number("OMPI_COMM_WORLD_LOCAL_RANK");
  const auto here = facts.number("OMPI_COMM_WORLD_LOCAL_SIZE", 1);
  if (!size || !rank || !local || !here || rank->value >= size->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("open-mpi", "Open MPI");
  add_ranks(Ranks{*size, *rank, *local, *here}, facts, plan);
  const auto job = job_name(facts);
  if (here->value == size->value) {
    plan.hosts = {{"127.0.0.1"}, "all ranks are on this host: " + here->origin};
  } else {
    add_hosts(facts, plan);
  }
  if (job) {
    plan.ports = {job_ports("open-mpi/" + job->value), "derived from " + job->origin};
    plan.run_id = {"open-mpi-" + job->value, job->origin};
  }
  check_place_of_rank_0(facts, "mpirun", plan);
  return plan;
}

}  // namespace muster
