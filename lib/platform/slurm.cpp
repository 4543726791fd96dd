// SPDX-License-Identifier: Apache-2.0
// Slurm steps, in which srun started one task per node or per worker, and allocations without srun.
// Only SLURM_STEP_* distinguishes the two: a batch script also has SLURM_PROCID=0 and
// SLURM_NTASKS=2, although only one process runs. In a sub-step SLURM_JOB_NODELIST is the whole
// job's list, so only the step's list is used.
#include "base/text.hpp"
#include "platform/host_list.hpp"
#include "platform/job_ports.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <numeric>

namespace muster {
namespace {

struct Step {
  std::string job;
  std::string step;
  std::vector<std::string> names;
  std::vector<int> tasks;  // tasks per node
  int node = 0;
  int local = 0;

  [[nodiscard]] int total() const { return std::accumulate(tasks.begin(), tasks.end(), 0); }

  [[nodiscard]] int before() const {
    return std::accumulate(tasks.begin(), tasks.begin() + node, 0);
  }

  [[nodiscard]] bool is_task_for_each_worker() const {
    return std::ranges::any_of(tasks, [](int count) { return count > 1; });
  }
};

bool holds_together(const Step& step, const PlatformFacts& facts) {
  const auto nodes = facts.number("SLURM_STEP_NUM_NODES", 1);
  const auto procid = facts.number("SLURM_PROCID");
  const auto node = static_cast<std::size_t>(step.node);
  return nodes && static_cast<std::size_t>(nodes->value) == step.names.size() &&
         step.tasks.size() == step.names.size() && node < step.tasks.size() &&
         step.local < step.tasks[node] && procid && procid->value < step.total();
}

// None if the step's variables are missing or contradictory.
std::optional<Step> read_step(const PlatformFacts& facts) {
  const auto job = facts.word("SLURM_JOB_ID");
  const auto step = facts.word("SLURM_STEP_ID");
  const auto node = facts.number("SLURM_NODEID");
  const auto local = facts.number("SLURM_LOCALID");
  if (!job || !step || !node || !local || !facts.has("SLURM_STEP_NODELIST")) {
    return std::nullopt;
  }
  auto names = expand_host_list(facts.text("SLURM_STEP_NODELIST")->value);
  auto tasks = expand_repetitions(facts.environ.get("SLURM_STEP_TASKS_PER_NODE").value_or(""));
  if (!names || !tasks) {
    return std::nullopt;
  }
  Step out{
      job->value, step->value, std::move(*names), std::move(*tasks), node->value, local->value};
  return holds_together(out, facts) ? std::optional(std::move(out)) : std::nullopt;
}

// "name:address:host,…": addresses from the controller, for names that DNS cannot resolve.
std::string address_of(const std::string& name, const PlatformFacts& facts) {
  const auto aliases = facts.text("SLURM_NODE_ALIASES");
  for (const std::string& alias : split(aliases ? aliases->value : "", ',')) {
    if (!alias.starts_with(name + ":")) {
      continue;
    }
    const std::string_view rest = std::string_view(alias).substr(name.size() + 1);
    const auto end = rest.starts_with('[') ? rest.find(']') : rest.find(':');
    const auto begin = rest.starts_with('[') ? 1U : 0U;
    if (end != std::string_view::npos && end > begin) {
      return std::string(rest.substr(begin, end - begin));
    }
  }
  return name;
}

// "12003-12004", from srun --resv-ports: the only way to get ports that no other job uses.
std::vector<std::uint16_t> reserved_ports(const PlatformFacts& facts) {
  const auto text = facts.word("SLURM_STEP_RESV_PORTS");
  const auto ports = text ? expand_host_list("[" + text->value + "]")
                          : Result<std::vector<std::string>>(std::vector<std::string>{});
  std::vector<std::uint16_t> out;
  for (const std::string& one : ports.value_or(std::vector<std::string>{})) {
    const auto port = parse_int(one).value_or(0);
    if (port > 0 && port <= UINT16_MAX && out.size() < kJobPortCandidates) {
      out.push_back(static_cast<std::uint16_t>(port));
    }
  }
  return out;
}

Said<std::vector<std::uint16_t>> ports_of(const std::string& job, const PlatformFacts& facts) {
  auto reserved = reserved_ports(facts);
  if (!reserved.empty()) {
    return {std::move(reserved), "SLURM_STEP_RESV_PORTS"};
  }
  return {job_ports(job), "derived from " + job};
}

// The number of GPUs of this task: the length of SLURM_STEP_GPUS ("0,1"), or else the node's count.
std::optional<Said<int>> gpus_of(const PlatformFacts& facts) {
  if (const auto list = facts.word("SLURM_STEP_GPUS");
      list && list->value.find('-') == std::string::npos) {
    return Said<int>{static_cast<int>(split(list->value, ',').size()), list->origin};
  }
  return facts.number("SLURM_GPUS_ON_NODE", 1);
}

bool sees_one_gpu(const PlatformFacts& facts) {
  const auto list = facts.word("CUDA_VISIBLE_DEVICES");
  return list && list->value.find(',') == std::string::npos;
}

void add_place(const Step& step, const PlatformFacts& facts, PlatformPlan& plan) {
  if (!step.is_task_for_each_worker()) {
    plan.nodes = {static_cast<int>(step.names.size()), "SLURM_STEP_NUM_NODES"};
    plan.node = {step.node, "SLURM_NODEID"};
    return;
  }
  // One agent per task, in node order regardless of --distribution.
  plan.nodes = {step.total(), "SLURM_STEP_TASKS_PER_NODE"};
  plan.node = {step.before() + step.local, "SLURM_NODEID, SLURM_LOCALID"};
  plan.workers = {1, "SLURM_STEP_TASKS_PER_NODE"};
  const auto cpus = facts.number("SLURM_CPUS_ON_NODE", 1);
  plan.task = TaskOfNode{step.local,
                         step.tasks[static_cast<std::size_t>(step.node)],
                         step.node,
                         static_cast<int>(step.names.size()),
                         sees_one_gpu(facts),
                         cpus ? std::optional(cpus->value) : std::nullopt};
}

PlatformPlan step_plan(const Step& step, const PlatformFacts& facts) {
  PlatformPlan plan = plan_of("slurm", "");
  const std::string id = step.job + "." + step.step;
  const auto restart = facts.number("SLURM_RESTART_COUNT", 1);
  plan.what = "Slurm step " + id + (restart ? fmt::format(", restart {}", restart->value) : "");
  plan.names = step.names;
  add_place(step, facts, plan);
  if (!plan.task) {
    plan.gpus = gpus_of(facts);
  }
  const std::string head = address_of(step.names.front(), facts);
  plan.hosts = {{head}, head == step.names.front() ? "SLURM_STEP_NODELIST" : "SLURM_NODE_ALIASES"};
  plan.members = {{}, "SLURM_STEP_NODELIST"};
  std::ranges::transform(step.names,
                         std::back_inserter(plan.members->value),
                         [&](const std::string& name) { return address_of(name, facts); });
  const auto cluster = facts.word("SLURM_CLUSTER_NAME");
  plan.ports = ports_of(
      fmt::format("slurm/{}/{}/{}", cluster ? cluster->value : "", step.job, step.step), facts);
  // number() returns an int, so end times after 2038 are ignored.
  if (const auto ends = facts.number("SLURM_JOB_END_TIME", 1)) {
    plan.ends = {ends->value, ends->origin};
  }
  plan.run_id = {
      "slurm-" + id + (restart ? fmt::format("-r{}", restart->value) : ""),
      restart ? "SLURM_JOB_ID, SLURM_STEP_ID, SLURM_RESTART_COUNT" : "SLURM_JOB_ID, SLURM_STEP_ID"};
  return plan;
}

// Since Slurm 22.05, srun does not inherit --cpus-per-task from the job.
std::vector<std::string> srun_words(int nodes, const PlatformFacts& facts) {
  std::vector<std::string> words{"srun",
                                 fmt::format("--nodes={}", nodes),
                                 fmt::format("--ntasks={}", nodes),
                                 "--ntasks-per-node=1"};
  if (const auto cpus = facts.number("SLURM_CPUS_PER_TASK", 1)) {
    words.push_back(fmt::format("--cpus-per-task={}", cpus->value));
  } else {
    words.emplace_back("--cpu-bind=none");
  }
  words.emplace_back("--kill-on-bad-exit=0");
  return words;
}

}  // namespace

std::optional<PlatformPlan> read_slurm(const PlatformFacts& facts) {
  if (!facts.has("SLURM_STEP_ID")) {
    return std::nullopt;
  }
  const auto step = read_step(facts);
  if (!step) {
    return leftovers(
        "slurm",
        "ignoring the SLURM_* variables: they do not describe a single step, for example because "
        "you logged in to the node with ssh. Start muster with srun, or pass --platform=none");
  }
  return step_plan(*step, facts);
}

std::optional<PlatformPlan> read_slurm_allocation(const PlatformFacts& facts) {
  const auto job = facts.word("SLURM_JOB_ID");
  const auto nodes = facts.number("SLURM_JOB_NUM_NODES", 1);
  const auto list = facts.text("SLURM_JOB_NODELIST");
  if (facts.has("SLURM_STEP_ID") || !job || !nodes || !list) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("slurm", fmt::format("Slurm job {}, not in a step", job->value));
  plan.starter = srun_words(nodes->value, facts);
  if (auto names = expand_host_list(list->value)) {
    plan.names = std::move(*names);
  }
  if (nodes->value > 1) {
    plan.problem = fmt::format(
        "the job has {} nodes (SLURM_JOB_NUM_NODES), and only srun starts a process on each",
        nodes->value);
  } else {
    plan.gpus = facts.number("SLURM_GPUS_ON_NODE", 1);
  }
  return plan;
}

}  // namespace muster
