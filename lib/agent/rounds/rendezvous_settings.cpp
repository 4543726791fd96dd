// SPDX-License-Identifier: Apache-2.0
#include "agent/rounds/rendezvous_settings.hpp"

#include "agent/store/reserved_ports.hpp"
#include "base/fnv.hpp"
#include "base/printable.hpp"
#include "machine/own_addresses.hpp"
#include "rendezvous/node/first_use.hpp"
#include "trust/token_file.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

namespace muster {
namespace {

// Converts 16 random hexadecimal digits to an id. Never returns 0, which is not a valid id.
std::uint64_t number_from(std::string_view hex) {
  std::uint64_t number = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), number, 16);
  return std::max<std::uint64_t>(number, 1);
}

constexpr std::size_t kCommandMax = 200;  // bytes of the command line shown in messages

// Each word is followed by a terminator, so that the words "a" and "b" and the single word "ab"
// have different digests.
std::uint64_t digest_of(const Program& program) {
  std::string words(1, static_cast<char>(program.kind));
  words.append(program.name).push_back('\0');
  for (const std::string& word : program.args) {
    words.append(word).push_back('\0');
  }
  return std::max<std::uint64_t>(fnv_1a(words), 1);
}

std::string command_of(const Program& program) {
  std::string text = program.name;
  for (const std::string& arg : program.args) {
    text += " " + arg;
  }
  return printable(text, kCommandMax);
}

JobTerms terms_of(const LaunchConfig& config, const std::string& version) {
  JobTerms terms;
  terms.job_id = config.rdzv_id;
  terms.backend = config.rdzv_backend;
  terms.nodes_max = config.nodes_max;
  // The world size of a static job is fixed.
  terms.nodes_min = config.rdzv_backend == "static" ? config.nodes_max : config.nodes_min;
  terms.max_restarts = config.max_restarts;
  terms.version = version;
  terms.leader_ports = reserved_leader_ports(config);
  terms.mends = config.restart_by_rank;
  terms.program = config.rendezvous.any_program ? 0 : digest_of(config.program);
  terms.command = command_of(config.program);
  return terms;
}

// A pod that replaces a lost one has a new address and knows no job key. If the job refused it,
// Kubernetes could not repair the job.
FirstUse::Admits admits_with(const Token& token, const TokenSource& source) {
  if (!token.secret.empty()) {
    return FirstUse::Admits::other_hosts;
  }
  return source.why_not_made.empty() ? FirstUse::Admits::all_hosts : FirstUse::Admits::always;
}

}  // namespace

RendezvousSettings rendezvous_settings(const AgentSetup& setup) {
  const LaunchConfig& config = setup.config;
  const bool is_static = config.rdzv_backend == "static";
  RendezvousSettings out;
  out.core.terms = terms_of(config, setup.version);
  out.core.endpoints = config.rdzv_endpoints;
  out.core.quick_failures = config.quick_failures;
  out.core.join_timeout = config.rendezvous.join_timeout;
  out.core.last_call = config.rendezvous.last_call_timeout;
  out.core.lease = config.rendezvous.lease;
  out.core.join_delay = config.rendezvous.join_delay;
  out.core.cool_down = config.rendezvous.cool_down;
  out.core.rejoins = setup.rejoins;
  out.core.reserve = setup.rejoins ? config.rendezvous.cool_down : Duration{};
  out.core.allow_split_brain = config.rendezvous.allow_split_brain;
  out.core.nodes_are_numbered = config.nodes_are_numbered;
  out.core.rank_order = config.rank_order;
  out.core.addresses = outward_addresses(own_addresses().value_or(std::vector<OwnAddress>{}));
  out.core.local_addr = config.local_addr;
  out.is_host = config.rendezvous.is_host;
  if (is_static) {
    // The workers' store is at the endpoint, on the node with rank 0.

    out.core.fixed_store = Endpoint{config.master_addr, config.master_port};
    out.is_host = config.rendezvous.is_host.value_or(config.node_rank == 0);
  }
  out.self.id = number_from(std::string_view(setup.random).substr(0, 16));
  out.self.name = setup.hostname;
  out.self.nproc = config.nproc;
  out.self.role = config.role;
  out.self.node_rank = config.node_rank.value_or(-1);
  out.seed = number_from(std::string_view(setup.random).substr(16, 16));
  out.ports = port_range_of(config);
  return out;
}

Result<void> use_token(const LaunchConfig& config, RendezvousSettings& settings) {
  auto token = read_token(config.token);
  MUSTER_RETURN_IF_ERROR(token);
  const bool has_munge = settings.credentials != nullptr;
  if (config.token.is_required && token->secret.empty() && !has_munge) {
    return failure(Errc::usage, "--token=require: " + token->why_none);
  }
  const bool trusts_first = token->is_local && !has_munge && !config.token.is_required;
  if (trusts_first) {
    settings.first_use =
        std::make_shared<FirstUse>(config.rdzv_id, admits_with(*token, config.token));
  }
  if (!trusts_first || settings.first_use->is_open()) {
    settings.why_no_token = token->why_none;
  }
  if (!token->secret.empty()) {
    settings.trust = std::make_shared<const JobTrust>(token->secret, config.rdzv_id);
    ::explicit_bzero(token->secret.data(), token->secret.size());
  }
  return {};
}

}  // namespace muster
