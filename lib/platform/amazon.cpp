// SPDX-License-Identifier: Apache-2.0
// AWS Batch multi-node jobs, and SageMaker's training containers.
#include "base/text.hpp"
#include "platform/job_ports.hpp"
#include "platform/json_text.hpp"
#include "platform/platforms.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace muster {
namespace {

constexpr std::string_view kSageMakerFile = "/opt/ml/input/config/resourceconfig.json";
constexpr std::uint16_t kSageMakerPort = 7777;  // the default of SageMaker's own launcher

std::string own_address(const PlatformFacts& facts) {
  for (const std::string& address : facts.addresses()) {
    if (!address.starts_with("127.") && address.find(':') == std::string::npos) {
      return address;
    }
  }
  return facts.hostname;
}

struct SageMakerHosts {
  std::vector<std::string> names;
  std::string me;
  std::string origin;     // origin of `names`
  std::string my_origin;  // origin of `me`
};

// AWS's toolkit sets SM_* inside the container. Containers without the toolkit have only the file
// kSageMakerFile.
SageMakerHosts sagemaker_hosts(const PlatformFacts& facts) {
  SageMakerHosts out;
  const auto hosts = facts.text("SM_HOSTS");
  const auto me = facts.word("SM_CURRENT_HOST");
  if (hosts && me) {
    out = {json_texts(hosts->value), me->value, hosts->origin, me->origin};
  } else if (facts.has("TRAINING_JOB_NAME") || facts.has("TRAINING_JOB_ARN")) {
    const auto text = facts.read_file(std::string(kSageMakerFile));
    if (const auto config = json_object(text.value_or(""))) {
      const std::string origin(kSageMakerFile);
      out = {texts_in(*config, "hosts"), text_in(*config, "current_host"), origin, origin};
    }
  }
  // All nodes must use the same order, and the order of the list is not guaranteed.
  std::ranges::sort(out.names, [](const std::string& left, const std::string& right) {
    return left.size() != right.size() ? left.size() < right.size() : left < right;
  });
  return out;
}

}  // namespace

// AWS Batch does not set the main node's address on the main node itself.
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
        "AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS is not set, and this is not the main node. "
        "Pass --rdzv-endpoint=HOST[:PORT]";
  }
  // "<id>#<node>"
  const std::string id = job->value.substr(0, job->value.find('#'));
  const auto attempt = facts.word("AWS_BATCH_JOB_ATTEMPT");
  plan.ports = {job_ports("aws-batch/" + id), "derived from " + job->origin};
  plan.run_id = {"aws-batch-" + id + (attempt ? "-" + attempt->value : ""), job->origin};
  return plan;
}

std::optional<PlatformPlan> read_sagemaker(const PlatformFacts& facts) {
  const SageMakerHosts hosts = sagemaker_hosts(facts);
  const auto found = std::ranges::find(hosts.names, hosts.me);
  if (found == hosts.names.end()) {
    return std::nullopt;
  }
  PlatformPlan plan = plan_of("sagemaker", "Amazon SageMaker");
  plan.nodes = {static_cast<int>(hosts.names.size()), hosts.origin};
  plan.node = {static_cast<int>(found - hosts.names.begin()), hosts.my_origin};
  plan.gpus = facts.number("SM_NUM_GPUS", 1);
  plan.hosts = {{hosts.names.front()}, hosts.origin};
  plan.ports = {{kSageMakerPort}, "SageMaker's own"};
  plan.dialled_by_workers = true;
  plan.names = hosts.names;
  plan.members = {hosts.names, hosts.origin};
  return plan;
}

}  // namespace muster
