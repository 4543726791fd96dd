// SPDX-License-Identifier: Apache-2.0
// PBS, Torque, Cobalt, OAR, LSF and SGE provide a list of nodes and run the script on the first
// node. A process started on another node (with pbsdsh, oarsh, blaunch or qrsh) finds its index by
// its host name.
#include "platform/job_ports.hpp"
#include "platform/node_files.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster {
namespace {

struct Batch {
  std::string name;
  std::string title;
  SaidNames names;
  std::optional<Said<std::string>> job;
  bool is_task = false;                       // started by a task launcher, so not the batch script
  std::vector<std::string> mpirun_options{};  // options for mpirun to find and reach the nodes
};

std::optional<PlatformPlan> batch_plan(const Batch& batch, const PlatformFacts& facts) {
  if (!batch.job) {
    return std::nullopt;
  }
  if (!batch.names) {
    return leftovers(batch.name,
                     "ignoring " + batch.title + " job " + batch.job->value +
                         ": cannot read its node list here. Pass --nnodes and --rdzv-endpoint, "
                         "or --platform=none");
  }
  const int machines = static_cast<int>(batch.names->value.size());
  const auto place = facts.my_place(batch.names->value);
  PlatformPlan plan = plan_of(batch.name, batch.title + " job " + batch.job->value);
  plan.names = batch.names->value;
  if (!place) {
    return leftovers(
        batch.name,
        fmt::format(
            "ignoring {}: it does not list this host ({})", batch.names->origin, facts.hostname));
  }
  plan.nodes = {machines, batch.names->origin};
  plan.node = {*place, batch.names->origin};
  plan.hosts = {{plan.names.front()}, batch.names->origin};
  plan.members = batch.names;
  const std::string id = batch.name + "/" + batch.job->value;
  plan.ports = {job_ports(id), "derived from " + batch.job->origin};
  plan.run_id = {batch.name + "-" + batch.job->value, batch.job->origin};
  if (*place == 0 && !batch.is_task && machines > 1) {
    plan.starter = {"mpirun"};
    std::ranges::copy(batch.mpirun_options, std::back_inserter(plan.starter));
    plan.starter.insert(plan.starter.end(), {"-N", "1", "-np", std::to_string(machines)});
    plan.problem = fmt::format(
        "the job has {} nodes ({}), but its script runs only on the first. Start muster on each "
        "node; without mpirun, also pass --nnodes={}",
        machines,
        batch.names->origin,
        machines);
  }
  return plan;
}

}  // namespace

std::optional<PlatformPlan> read_pbs(const PlatformFacts& facts) {
  if (!facts.has("PBS_ENVIRONMENT")) {
    return std::nullopt;
  }
  return batch_plan({"pbs",
                     "PBS",
                     names_of_pbs(facts),
                     facts.word("PBS_JOBID"),
                     facts.number("PBS_TASKNUM", 2).has_value()},
                    facts);
}

std::optional<PlatformPlan> read_cobalt(const PlatformFacts& facts) {
  return batch_plan({"cobalt", "Cobalt", names_of_cobalt(facts), facts.word("COBALT_JOBID"), false},
                    facts);
}

// https://oar.readthedocs.io: the job's command runs only on the first node, OAR_NODEFILE lists a
// host once per core, and oarsh replaces ssh. Open MPI does not support OAR.
std::optional<PlatformPlan> read_oar(const PlatformFacts& facts) {
  Batch batch{"oar", "OAR", names_of_oar(facts), facts.word("OAR_JOB_ID")};
  if (batch.names) {
    const auto file = facts.text(batch.names->origin);
    batch.mpirun_options = {"--mca", "plm_rsh_agent", "oarsh", "--machinefile", file->value};
  }
  return batch_plan(batch, facts);
}

std::optional<PlatformPlan> read_lsf(const PlatformFacts& facts) {
  return batch_plan(
      {"lsf", "LSF", names_of_lsf(facts), facts.word("LSB_JOBID"), facts.has("LSF_PM_TASKID")},
      facts);
}

std::optional<PlatformPlan> read_sge(const PlatformFacts& facts) {
  if (!facts.has_all({"SGE_ROOT", "PE_HOSTFILE"})) {
    return std::nullopt;  // single-slot jobs have no such file
  }
  return batch_plan({"sge", "Grid Engine", names_of_sge(facts), facts.word("JOB_ID"), false},
                    facts);
}

}  // namespace muster
