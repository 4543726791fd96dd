// SPDX-License-Identifier: Apache-2.0
#include "agent/sinks/open_record.hpp"

#include "base/fnv.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace muster {
namespace {

// Replaces unusual characters, because the kernel allows any byte in a host name.
std::string file_name_of(const std::string& hostname) {
  constexpr std::size_t kLongest = 64;
  std::string name = hostname.substr(0, kLongest);
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '.';
  };
  std::ranges::replace_if(
      name, [&](char c) { return !is_plain(c); }, '_');
  return name;
}

// One name for each job, host and address. If several agents on one host have no separate
// addresses, each uses the first file that is not locked.
std::string record_name(const AgentSetup& setup) {
  const LaunchConfig& config = setup.config;
  std::string job = setup.hostname + '\n' + config.rdzv_id + '\n' + config.local_addr;
  for (const Endpoint& endpoint : config.rdzv_endpoints) {
    job += '\n' + endpoint.describe();
  }
  return fmt::format("{}-{:016x}", file_name_of(setup.hostname), fnv_1a(job));
}

}  // namespace

std::shared_ptr<const RoundRecord> open_record(const AgentSetup& setup) {
  const LaunchConfig& config = setup.config;
  if (config.state_dir.empty()) {
    return nullptr;
  }
  return std::make_shared<RoundRecord>(RoundRecord::open(
      config.state_dir + "/rounds", record_name(setup), config.rendezvous.join_timeout));
}

}  // namespace muster
