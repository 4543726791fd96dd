// SPDX-License-Identifier: Apache-2.0
// Kubernetes: Kubeflow's operators, which set torchrun's own variables; Volcano without its PyTorch
// plug-in; Indexed Jobs and JobSets, which set a pod's index but not the number of pods.
#include "base/text.hpp"
#include "platform/job_ports.hpp"
#include "platform/platforms.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace muster {
namespace {

// The first line that the kubelet writes to /etc/hosts in a pod on the host network.
constexpr std::string_view kHostNetworkHeader = "# Kubernetes-managed hosts file (host network)";

struct PodName {
  std::string full;            // with the domain, if the kubelet wrote it into /etc/hosts
  bool is_of_machine = false;  // hostNetwork: the host name is the node's, not the pod's
};

// Finds the pod's name in a line such as "10.1.2.3 train-0.svc.ns.svc.cluster.local train-0" in
// /etc/hosts, written by the kubelet.
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

// Removes "-INDEX" from the end; none if the label does not end with it.
std::optional<std::string_view> without_index(std::string_view label, int index) {
  const std::string tail = fmt::format("-{}", index);
  if (!label.ends_with(tail)) {
    return std::nullopt;
  }
  label.remove_suffix(tail.size());
  return label;
}

// "js-workers-1-3": a replicated job with several replicas numbers its pods per replica. Removes
// the replica's number as well.
std::optional<std::string_view> without_replica(std::string_view label) {
  const auto dash = label.rfind('-');
  const auto number =
      dash == std::string_view::npos ? std::nullopt : parse_int(label.substr(dash + 1));
  return number && *number >= 0 ? without_index(label, static_cast<int>(*number)) : std::nullopt;
}

// "train-3" with index 3 yields "train-0"; in a JobSet, "js-workers-1-3" yields "js-workers-0-0".
// Keeps the rest of the name. Empty if the name has another form.
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

// The values come from PET_* variables, which have higher precedence. This row prevents
// lower-precedence variables from being read: WORLD_SIZE counts pods in some versions and workers
// in others.
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

// VC_<TASK>_HOSTS of each task, the master first.
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

// The environment does not contain the number of pods. Independent pods are as common as one job
// across all pods, so the user must choose.
std::optional<PlatformPlan> read_indexed_job(const PlatformFacts& facts) {
  const auto index = facts.number("JOB_COMPLETION_INDEX");
  if (!index || !facts.has("KUBERNETES_SERVICE_HOST")) {
    return std::nullopt;
  }
  const bool is_set = facts.has("JOBSET_NAME");
  PlatformPlan plan = plan_of(is_set ? "jobset" : "indexed-job",
                              is_set ? "Kubernetes JobSet" : "Kubernetes Indexed Job");
  plan.nodes_unknown =
      "the environment does not contain the number of pods. Pass --nnodes=N for one job across "
      "all pods, or --platform=none for one job per pod";
  plan.node = index;
  const PodName pod = pod_name(facts);
  const std::string first = name_of_first(pod, index->value, is_set);
  if (first.empty()) {
    plan.problem = fmt::format(
        "the pod name {} does not end in its index ({}), for example because of hostNetwork, so "
        "the first pod is unknown. Pass --rdzv-endpoint=HOST[:PORT] with the address of a node",
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
