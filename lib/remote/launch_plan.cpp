// SPDX-License-Identifier: Apache-2.0
#include "remote/launch_plan.hpp"

#include "base/check.hpp"
#include "base/endpoint.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace muster {
namespace {

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == host.npos);
}

bool all_are_loopback(const HostsRequest& request) {
  return std::ranges::all_of(request.hosts,
                             [](const JobHost& host) { return is_loopback(host.name()); });
}

std::string conf_for(const HostsRequest& request, std::size_t host) {
  if (!request.rdzv_endpoint.empty()) {
    return request.rdzv_conf;
  }
  const std::string own = host == 0 ? "is_host=true" : "is_host=false";
  return request.rdzv_conf.empty() ? own : request.rdzv_conf + "," + own;
}

// Adds the host name, as typed by the user, to the prefix of each rank's lines.
std::string label_for(const JobHost& host) {
  return fmt::format("--log-line-prefix-template=[{}:${{rank}}]:", host.name());
}

void add_meeting(const HostsRequest& request,
                 std::size_t host,
                 const std::string& endpoint,
                 std::vector<std::string>& out) {
  const std::size_t count = request.hosts.size();
  if (count == 1) {
    return;
  }
  out.push_back(fmt::format("--nnodes={}:{}", request.nodes_min, count));
  out.push_back(fmt::format("--node-rank={}", host));
  out.emplace_back("--rdzv-backend=c10d");
  out.push_back("--rdzv-endpoint=" + endpoint);
  out.push_back("--rdzv-id=" + request.rdzv_id);
  if (request.sends_token) {
    out.push_back(fmt::format("--token-file={}", kSentToken));
  }
  if (const std::string conf = conf_for(request, host); !conf.empty()) {
    out.push_back("--rdzv-conf=" + conf);
  }
}

}  // namespace

std::vector<Branch> branches(std::size_t first, std::size_t end, std::size_t fanout) {
  MUSTER_CHECK(first <= end && fanout > 0);
  const std::size_t count = end - first;
  const std::size_t parts = std::min(count, fanout);
  std::vector<Branch> out;
  for (std::size_t i = 0; i < parts; ++i) {
    out.push_back({first + count * i / parts, first + count * (i + 1) / parts});
  }
  return out;
}

std::string remote_command(const std::string& muster) {
  return fmt::format("exec {} {}", shell_quoted(muster), kRemoteAgentFlag);
}

std::vector<std::string> rsh_argv(const std::vector<std::string>& rsh,
                                  const std::string& target,
                                  const std::string& command) {
  std::vector<std::string> out = rsh;
  out.push_back(target);
  out.push_back(command);
  return out;
}

std::vector<std::string> start_argv(const HostsRequest& request, const JobHost& host) {
  const std::string command = remote_command(request.muster);
  return host.is_local ? std::vector<std::string>{"/bin/sh", "-c", command}
                       : rsh_argv(request.rsh, host.target, command);
}

Environ start_environ(const HostsRequest& request, const JobHost& host, const Environ& ours) {
  Environ out = ours;
  if (host.is_local) {
    for (const std::string& variable : request.settings) {
      out.erase(variable);
    }
  }
  return out;
}

std::string quoted(std::span<const std::string> words) {
  std::vector<std::string> out;
  std::ranges::transform(words, std::back_inserter(out), shell_quoted);
  return join(out, " ");
}

SetupMessage setup_for(const HostsRequest& request, const Branch& branch) {
  SetupMessage out;
  out.host = static_cast<std::uint16_t>(branch.head);
  out.name = request.hosts[branch.head].name();
  out.binds = branch.head == 0 && request.hosts.size() > 1 && request.rdzv_endpoint.empty();
  out.port_range = request.port_range;
  out.fanout = request.fanout;
  out.retry_seconds =
      static_cast<int>(std::chrono::ceil<std::chrono::seconds>(request.reach_timeout).count());
  out.command = remote_command(request.muster);
  out.rsh = request.rsh;
  for (std::size_t i = branch.head + 1; i < branch.end; ++i) {
    out.targets.push_back(request.hosts[i].target);
  }
  return out;
}

std::string endpoint_of(const HostsRequest& request,
                        const HelloMessage& first,
                        const std::string& caller) {
  if (!request.rdzv_endpoint.empty()) {
    return request.rdzv_endpoint;
  }
  const bool loopback = all_are_loopback(request);
  std::vector<std::string> places;
  const JobHost& front = request.hosts.front();
  for (const std::string& place : {front.is_local ? caller : first.address, front.name()}) {
    const std::string text = Endpoint{place, first.port}.describe();
    if (!place.empty() && (loopback || !is_loopback(place)) &&
        std::ranges::find(places, text) == places.end()) {
      places.push_back(text);
    }
  }
  return join(places, ",");
}

std::vector<std::string> agent_args(const HostsRequest& request,
                                    std::size_t host,
                                    const std::string& endpoint) {
  std::vector<std::string> out = request.options;
  const JobHost& self = request.hosts[host];
  if (self.slots) {
    out.push_back(fmt::format("--nproc-per-node={}", *self.slots));
  }
  if (!self.devices.empty()) {
    out.push_back("--devices=" + self.devices);
  }
  if (request.label) {
    out.push_back(label_for(self));
  }
  add_meeting(request, host, endpoint, out);
  // Standard input stays with the local launcher.
  out.insert(out.end(), {"--platform=none", "--stdin-rank=none", "--"});
  std::ranges::copy(request.program, std::back_inserter(out));
  return out;
}

std::string describe_hosts(const HostsRequest& typed) {
  HostsRequest request = typed;
  request.rdzv_conf = join(without_secrets(split(typed.rdzv_conf, ',')), ",");
  std::string out = fmt::format("# {} hosts", request.hosts.size());
  const auto direct = branches(0, request.hosts.size(), static_cast<std::size_t>(request.fanout));
  if (direct.size() < request.hosts.size()) {
    out += fmt::format("; this host starts {} of them, which start the others", direct.size());
  }
  out += "; the first host reports ADDRESS:PORT\n";
  for (std::size_t i = 0; i < request.hosts.size(); ++i) {
    out += fmt::format("\nhost {}: {}\n", i, request.hosts[i].name());
    out += "  " + quoted(start_argv(request, request.hosts[i])) + "\n";
    const std::string place =
        request.rdzv_endpoint.empty() ? "ADDRESS:PORT" : request.rdzv_endpoint;
    out += "  runs: muster " + quoted(agent_args(request, i, place)) + "\n";
  }
  if (!request.environment.empty()) {
    out += "\nforwarded variables:";
    for (const auto& [name, value] : request.environment) {
      out += " " + name;
    }
    out += "\n";
  }
  return out;
}

}  // namespace muster
