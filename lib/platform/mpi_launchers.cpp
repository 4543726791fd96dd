// SPDX-License-Identifier: Apache-2.0
// Hydra (MPICH, Intel MPI), HPE's PALS, Flux and HTCondor. They provide ranks but not the address
// of rank 0.
#include "platform/around.hpp"
#include "platform/job_ports.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

namespace muster {
namespace {

// Identifies this launch by the Slurm step that runs Hydra's proxies, or by the job.
std::optional<Said<std::string>> job_around(const PlatformFacts& facts) {
  if (const auto job = facts.word("SLURM_JOB_ID"), step = facts.word("SLURM_STEP_ID");
      job && step) {
    return Said<std::string>{job->value + "." + step->value, "SLURM_JOB_ID, SLURM_STEP_ID"};
  }
  for (const auto name : {"PBS_JOBID", "COBALT_JOBID", "OAR_JOB_ID", "LSB_JOBID"}) {
    if (auto found = facts.word(name)) {
      return found;
    }
  }
  return facts.has("SGE_ROOT") ? facts.word("JOB_ID") : std::nullopt;
}

void add_hydra_meeting(const Said<std::string>& job,
                       const PlatformFacts& facts,
                       PlatformPlan& plan) {
  if (auto around = machines_around(facts)) {
    plan.hosts = {{around->value.front()}, around->origin};
    plan.members = around;
  }
  plan.ports = {job_ports(plan.name + "/" + job.value), "derived from " + job.origin};
  plan.run_id = {plan.name + "-" + job.value, job.origin};
}

}  // namespace

std::optional<PlatformPlan> read_hydra(const PlatformFacts& facts) {
  const auto size = facts.number("PMI_SIZE", 1);
  const auto rank = facts.number("PMI_RANK");
  const auto local = facts.number("MPI_LOCALRANKID");
  const auto here = facts.number("MPI_LOCALNRANKS", 1);
  if (!size || !rank || !local || !here || rank->value >= size->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("hydra", "MPICH's or Intel MPI's mpiexec");
  add_ranks(Ranks{*size, *rank, *local, *here}, facts, plan);
  if (const auto job = job_around(facts)) {
    add_hydra_meeting(*job, facts, plan);
  }
  check_place_of_rank_0(facts, "mpiexec", plan);
  return plan;
}

// PALS_RANKID and PMI_SIZE: one rank per node, or one per worker.
std::optional<PlatformPlan> read_pals(const PlatformFacts& facts) {
  const auto apid = facts.word("PALS_APID");
  const auto rank = facts.number("PALS_RANKID");
  const auto local = facts.number("PALS_LOCAL_RANKID");
  const auto size = facts.number("PMI_SIZE", 1);
  const auto here = facts.number("PMI_LOCAL_SIZE", 1);
  if (!apid || !rank || !local || !size || rank->value >= size->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("pals", "HPE PALS");
  const Said<int> alone{1, "no PMI_LOCAL_SIZE"};
  add_ranks(Ranks{*size, *rank, *local, here.value_or(alone)}, facts, plan);
  add_hydra_meeting(*apid, facts, plan);
  check_place_of_rank_0(facts, "PALS", plan);
  return plan;
}

std::optional<PlatformPlan> read_flux(const PlatformFacts& facts) {
  const auto rank = facts.number("FLUX_TASK_RANK");
  const auto local = facts.number("FLUX_TASK_LOCAL_ID");
  const auto size = facts.number("FLUX_JOB_SIZE", 1);
  const auto nodes = facts.number("FLUX_JOB_NNODES", 1);
  const auto job = facts.word("FLUX_JOB_ID");
  if (!rank || !local || !size || !nodes || !job || rank->value >= size->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("flux", "Flux job " + job->value);
  const int here = (size->value + nodes->value - 1) / nodes->value;
  add_ranks(Ranks{*size, *rank, *local, {here, "FLUX_JOB_SIZE, FLUX_JOB_NNODES"}}, facts, plan);
  if (plan.task && size->value % nodes->value != 0) {
    plan.task->local_size.reset();
  }
  plan.ports = {job_ports("flux/" + job->value), "derived from " + job->origin};
  plan.run_id = {"flux-" + job->value, job->origin};
  if (nodes->value == 1) {
    plan.hosts = {{"127.0.0.1"}, "one machine: " + nodes->origin};
  }
  check_place_of_rank_0(facts, "Flux", plan);
  return plan;
}

// https://htcondor.readthedocs.io, parallel universe: the same program runs in machine_count slots,
// and these two variables contain the slot's number and the number of slots. Neither the
// environment nor the job ad lists the nodes. Other universes set neither variable, but users set
// _CONDOR_NPROCS themselves, so both are required.
std::optional<PlatformPlan> read_htcondor(const PlatformFacts& facts) {
  const auto rank = facts.number("_CONDOR_PROCNO");
  const auto size = facts.number("_CONDOR_NPROCS", 1);
  if (!rank || !size || rank->value >= size->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("htcondor", "HTCondor's parallel universe");
  plan.nodes = size;
  plan.node = rank;
  check_place_of_rank_0(facts, "HTCondor", plan);
  return plan;
}

// Ray workers are actors. A job that is started in an actor is limited to this host.
std::optional<PlatformPlan> read_ray(const PlatformFacts& facts) {
  if (!facts.has("RAY_JOB_ID") && !facts.has("RAY_RAYLET_PID")) {
    return std::nullopt;
  }
  return plan_of("ray", "a Ray worker, whose jobs are limited to this host");
}

}  // namespace muster
