// SPDX-License-Identifier: Apache-2.0
// Kubernetes: Kubeflow's operators, which speak torchrun's own variables; Volcano without its
// PyTorch plug-in; Indexed Jobs and JobSets, which tell a pod its index but not how many there are.
#include "base/text.hpp"
#include "platform/job_ports.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

// "10.1.2.3 train-0.svc.ns.svc.cluster.local train-0" in /etc/hosts, written by the kubelet.
std::string full_name(const PlatformFacts& facts) {
  const auto hosts = facts.read_file("/etc/hosts");
  for (const std::string& line : split(hosts.value_or(""), '\n')) {
    for (const std::string& word : split(line.substr(0, line.find('#')), ' ')) {
      for (const std::string& name : split(word, '\t')) {
        if (name.starts_with(facts.hostname + ".")) {
          return name;
        }
      }
    }
  }
  return facts.hostname;
}

// "train-3" and index 3: "train-0", with the rest of the name behind. Empty: not such a name.
std::string name_of_first(std::string_view full, int index) {
  const auto dot = full.find('.');
  const std::string_view label = full.substr(0, dot);
  const std::string tail = fmt::format("-{}", index);
  if (!label.ends_with(tail)) {
    return "";
  }
  return std::string(label.substr(0, label.size() - tail.size())) + "-0" +
         (dot == std::string_view::npos ? "" : std::string(full.substr(dot)));
}

}  // namespace

// The values are PET_* variables, a stronger layer; this row keeps weaker ones from being read:
// WORLD_SIZE counts pods in some versions and workers in others.
std::optional<PlatformPlan> read_kubeflow(const PlatformFacts& facts) {
  const bool elastic = facts.has("PET_RDZV_ENDPOINT");
  if (!facts.has("PET_NNODES") || (!elastic && !facts.has("PET_MASTER_ADDR"))) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("kubeflow", "Kubeflow (PET_*)");
  // Versions up to 1.6 misspelled PET_NPROC_PER_NODE.
  plan.workers = facts.number("PET_N_PROC_PER_NODE", 1);
  return plan;
}

// VC_<TASK>_HOSTS of each task, the master's first.
std::optional<PlatformPlan> read_volcano_hosts(const PlatformFacts& facts) {
  if (!facts.has("VC_TASK_INDEX")) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  std::string origin;
  for (const std::string_view task : {"VC_MASTER_HOSTS", "VC_WORKER_HOSTS"}) {
    const auto hosts = facts.text(task);
    for (const std::string& host : split(hosts ? hosts->value : "", ',')) {
      if (!trim(host).empty()) {
        names.emplace_back(trim(host));
      }
    }
    origin += hosts ? (origin.empty() ? "" : ", ") + hosts->origin : "";
  }
  const auto place = facts.my_place(names);
  if (!place) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("volcano", "Volcano");
  plan.nodes = {static_cast<int>(names.size()), origin};
  plan.node = {*place, origin};
  plan.hosts = {{names.front()}, origin};
  plan.names = std::move(names);
  return plan;
}

// The number of pods is nowhere; pods that are meant to work alone are as usual as a job of many.
std::optional<PlatformPlan> read_indexed_job(const PlatformFacts& facts) {
  const auto index = facts.number("JOB_COMPLETION_INDEX");
  if (!index || !facts.has("KUBERNETES_SERVICE_HOST")) {
    return std::nullopt;
  }
  const bool is_set = facts.has("JOBSET_NAME");
  PlatformPlan plan = plan_of(is_set ? "jobset" : "indexed-job",
                              is_set ? "Kubernetes JobSet" : "Kubernetes Indexed Job");
  plan.node = index;
  plan.nodes_unknown =
      "the environment does not say how many pods there are; for one job of all give --nnodes=N, "
      "for jobs of one pod each --platform=none";
  const std::string first = name_of_first(full_name(facts), index->value);
  if (!first.empty()) {
    plan.hosts = {{first}, "this pod's name with index 0"};
  }
  return plan;
}

}  // namespace muster
