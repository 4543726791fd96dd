// SPDX-License-Identifier: Apache-2.0
#include "agent/open_record.hpp"

#include <fmt/core.h>

#include <string>

namespace muster {
namespace {

// One for each job, host and address. Agents on one host that have no address of their own take the
// first file that is free.
std::string record_name(const AgentSetup& setup) {
  const LaunchConfig& config = setup.config;
  std::string job = config.rdzv_id + '\n' + config.local_addr;
  for (const Endpoint& endpoint : config.rdzv_endpoints) {
    job += '\n' + endpoint.describe();
  }
  return fmt::format("{}-{:016x}", setup.hostname, check_sum(job));
}

}  // namespace

std::shared_ptr<const RoundRecord> open_record(const AgentSetup& setup) {
  const LaunchConfig& config = setup.config;
  if (config.state_dir.empty()) {
    return nullptr;
  }
  auto record = std::make_shared<RoundRecord>(RoundRecord::open(
      config.state_dir + "/rounds", record_name(setup), config.rendezvous.join_timeout));
  return record->is_on() ? record : nullptr;
}

}  // namespace muster
