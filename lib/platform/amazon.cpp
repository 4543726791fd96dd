// SPDX-License-Identifier: Apache-2.0
// AWS Batch jobs of several nodes, and SageMaker's training containers.
#include "base/text.hpp"
#include "platform/job_ports.hpp"
#include "platform/json_text.hpp"
#include "platform/platforms.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace muster {
namespace {

constexpr std::uint16_t kSageMakerPort = 7777;  // of SageMaker's own launcher

std::string own_address(const PlatformFacts& facts) {
  for (const std::string& address : facts.addresses()) {
    if (!address.starts_with("127.") && address.find(':') == std::string::npos) {
      return address;
    }
  }
  return facts.hostname;
}

}  // namespace

// The main node's address is not told to the main node itself.
std::optional<PlatformPlan> read_aws_batch(const PlatformFacts& facts) {
  const auto nodes = facts.number("AWS_BATCH_JOB_NUM_NODES", 1);
  const auto node = facts.number("AWS_BATCH_JOB_NODE_INDEX");
  const auto main = facts.number("AWS_BATCH_JOB_MAIN_NODE_INDEX");
  const auto address = facts.word("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS");
  const auto job = facts.word("AWS_BATCH_JOB_ID");
  if (!nodes || !node || !main || !job || node->value >= nodes->value) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("aws-batch", "AWS Batch");
  plan.nodes = nodes;
  plan.node = node;
  plan.host_node = main->value;
  if (address) {
    plan.hosts = {{address->value}, address->origin};
  } else if (is_host(plan)) {
    plan.hosts = {{own_address(facts)}, "this is the main node"};
  } else {
    plan.problem =
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not set on this node, which is not the "
        "main one; give --rdzv-endpoint=HOST[:PORT]";
  }
  // "<id>#<node>"
  const std::string id = job->value.substr(0, job->value.find('#'));
  const auto attempt = facts.word("AWS_BATCH_JOB_ATTEMPT");
  plan.ports = {job_ports("aws-batch/" + id), "derived from " + job->origin};
  plan.run_id = {"aws-batch-" + id + (attempt ? "-" + attempt->value : ""), job->origin};
  return plan;
}

std::optional<PlatformPlan> read_sagemaker(const PlatformFacts& facts) {
  const auto hosts = facts.text("SM_HOSTS");
  const auto me = facts.word("SM_CURRENT_HOST");
  std::vector<std::string> names = hosts ? json_texts(hosts->value) : std::vector<std::string>{};
  // All machines must count alike, and the list's order is no promise.
  std::ranges::sort(names, [](const std::string& left, const std::string& right) {
    return left.size() != right.size() ? left.size() < right.size() : left < right;
  });
  const auto found = me ? std::ranges::find(names, me->value) : names.end();
  if (found == names.end()) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("sagemaker", "Amazon SageMaker");
  plan.nodes = {static_cast<int>(names.size()), "SM_HOSTS"};
  plan.node = {static_cast<int>(found - names.begin()), "SM_CURRENT_HOST"};
  plan.gpus = facts.number("SM_NUM_GPUS", 1);
  plan.hosts = {{names.front()}, "SM_HOSTS"};
  plan.ports = {{kSageMakerPort}, "SageMaker's own"};
  plan.dialled_by_workers = true;
  plan.names = std::move(names);
  return plan;
}

}  // namespace muster
