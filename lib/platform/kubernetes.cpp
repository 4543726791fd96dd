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

// How the kubelet begins the file of a pod in its machine's network.
constexpr std::string_view kHostNetworkHeader = "# Kubernetes-managed hosts file (host network)";

struct PodName {
  std::string full;            // with the domain, where the kubelet wrote that into /etc/hosts
  bool is_of_machine = false;  // hostNetwork: the host's name says nothing of the pod
};

// "10.1.2.3 train-0.svc.ns.svc.cluster.local train-0" in /etc/hosts, written by the kubelet.
PodName pod_name(const PlatformFacts& facts) {
  const auto hosts = facts.read_file("/etc/hosts");
  PodName out{facts.hostname};
  for (const std::string& line : split(hosts.value_or(""), '\n')) {
    out.is_of_machine = out.is_of_machine || line.starts_with(kHostNetworkHeader);
    for (const std::string& word : split(line.substr(0, line.find('#')), ' ')) {
      for (const std::string& name : split(word, '\t')) {
        if (name.starts_with(facts.hostname + ".") && out.full == facts.hostname) {
          out.full = name;
        }
      }
    }
  }
  return out;
}

// Takes "-INDEX" off the end; none: it does not end so.
std::optional<std::string_view> without_index(std::string_view label, int index) {
  const std::string tail = fmt::format("-{}", index);
  if (!label.ends_with(tail)) {
    return std::nullopt;
  }
  label.remove_suffix(tail.size());
  return label;
}

// "js-workers-1-3": the pods of a replicated job with several replicas count anew in each replica.
// Takes the replica's number off as well.
std::optional<std::string_view> without_replica(std::string_view label) {
  const auto dash = label.rfind('-');
  const auto number =
      dash == std::string_view::npos ? std::nullopt : parse_int(label.substr(dash + 1));
  return number && *number >= 0 ? without_index(label, static_cast<int>(*number)) : std::nullopt;
}

// "train-3" and index 3: "train-0"; of a JobSet "js-workers-1-3": "js-workers-0-0"; with the rest
// of the name behind. Empty: not such a name.
std::string name_of_first(const PodName& pod, int index, bool is_set) {
  const std::string_view full = pod.full;
  const std::size_t dot = std::min(full.find('.'), full.size());
  auto stem = pod.is_of_machine ? std::nullopt : without_index(full.substr(0, dot), index);
  if (is_set && stem) {
    stem = without_replica(*stem);
  }
  return stem ? fmt::format("{}{}{}", *stem, is_set ? "-0-0" : "-0", full.substr(dot)) : "";
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
  plan.members = {names, origin};
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
  plan.nodes_unknown =
      "the environment does not say how many pods there are; for one job of all give --nnodes=N, "
      "for jobs of one pod each --platform=none";
  plan.node = index;
  const PodName pod = pod_name(facts);
  const std::string first = name_of_first(pod, index->value, is_set);
  if (first.empty()) {
    plan.problem = fmt::format(
        "{} is no name of a pod that ends in its index ({}), as with hostNetwork, so the first pod "
        "is unknown; give --rdzv-endpoint=HOST[:PORT], the address of one of the machines",
        pod.full,
        index->value);
    return plan;
  }
  plan.hosts = {{first}, "this pod's name with index 0"};
  if (is_set) {
    plan.is_first = pod.full == first;
  }
  return plan;
}

}  // namespace muster
