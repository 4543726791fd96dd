// SPDX-License-Identifier: Apache-2.0
// Google Cloud AI Platform and Vertex AI: WORLD_SIZE and RANK count nodes, and MASTER_ADDR and
// MASTER_PORT are set. If these are missing, CLUSTER_SPEC lists the nodes by pool. Only pool 0 (the
// first node) and pool 1 (the other nodes) run the training.
#include "base/endpoint.hpp"
#include "platform/cloud_rows.hpp"
#include "platform/json_text.hpp"

#include <nlohmann/json.hpp>

namespace muster {
namespace {

constexpr std::string_view kTitle = "Google Cloud AI Platform or Vertex AI";

// The nodes of the training pools, "host:2222", and the index of this node.
struct Cluster {
  std::vector<std::string> machines;
  int place = -1;
};

std::optional<Cluster> read_spec(const PlatformFacts& facts) {
  const auto text = facts.text("CLUSTER_SPEC");
  const auto spec = text ? json_object(text->value) : std::nullopt;
  if (!spec || !spec->contains("cluster") || !spec->contains("task")) {
    return std::nullopt;
  }
  const std::string type = text_in((*spec)["task"], "type");
  const int index = number_in((*spec)["task"], "index");
  Cluster out;
  for (const std::string pool : {"workerpool0", "workerpool1"}) {
    const auto names = texts_in((*spec)["cluster"], pool);
    if (pool == type && index >= 0 && static_cast<std::size_t>(index) < names.size()) {
      out.place = static_cast<int>(out.machines.size()) + index;
    }
    out.machines.insert(out.machines.end(), names.begin(), names.end());
  }
  return out.place < 0 ? std::nullopt : std::optional(std::move(out));
}

std::optional<PlatformPlan> plan_by_spec(const PlatformFacts& facts) {
  const auto cluster = read_spec(facts);
  const auto head = cluster ? parse_endpoint(cluster->machines.front())
                            : Result<Endpoint>(failure(Errc::usage, ""));
  if (!facts.has("CLUSTER_SPEC")) {
    return std::nullopt;
  }
  if (!head) {
    return leftovers("google",
                     "ignoring CLUSTER_SPEC: this host is not in workerpool0 or workerpool1, the "
                     "training pools");
  }
  PlatformPlan plan = plan_of("google", std::string(kTitle));
  plan.nodes = {static_cast<int>(cluster->machines.size()), "CLUSTER_SPEC"};
  plan.node = {cluster->place, "CLUSTER_SPEC"};
  plan.hosts = {{head->host}, "CLUSTER_SPEC"};
  if (head->port.value_or(0) != 0) {
    plan.ports = {{*head->port}, "CLUSTER_SPEC"};
  }
  plan.dialled_by_workers = true;
  return plan;
}

}  // namespace

std::optional<PlatformPlan> read_google(const PlatformFacts& facts) {
  for (const std::string_view marker : {"CLUSTER_SPEC", "CLOUD_ML_JOB_ID"}) {
    const CloudRow row{.name = "google",
                       .title = kTitle,
                       .marker = marker,
                       .machines = "WORLD_SIZE",
                       .machine = "RANK",
                       .host = "MASTER_ADDR",
                       .port = "MASTER_PORT"};
    if (auto plan = read_cloud(row, facts)) {
      return plan;
    }
  }
  return plan_by_spec(facts);
}

}  // namespace muster
