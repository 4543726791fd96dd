// SPDX-License-Identifier: Apache-2.0
// Plans a launch on other hosts: the launch tree, the command lines, and each agent's arguments.
// Pure.
#pragma once

#include "base/environ.hpp"
#include "config/hosts_request.hpp"
#include "remote/messages.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace muster {

// The path from which each agent reads the job's token. Other users cannot open it.
inline constexpr const char* kSentToken = "/dev/stdin";

// The hidden option that a remote shell uses to start this program.
inline constexpr std::string_view kRemoteAgentFlag = "--remote-agent";

// The hosts [head, end) of the list. This process starts the agent on the head, which starts the
// agents on the other hosts.
struct Branch {
  std::size_t head = 0;
  std::size_t end = 0;
  bool operator==(const Branch&) const = default;
};

// Divides [first, end) into at most `fanout` branches, in order and as evenly as possible.
[[nodiscard]] std::vector<Branch> branches(std::size_t first, std::size_t end, std::size_t fanout);

// The command as a single word, which the remote shell passes to the shell on the other host.
[[nodiscard]] std::string remote_command(const std::string& muster);

// The local command line: the remote shell, its options, the host, and the command.
[[nodiscard]] std::vector<std::string> rsh_argv(const std::vector<std::string>& rsh,
                                                const std::string& target,
                                                const std::string& command);

// The command that starts the agent: a remote shell, or a local shell if the agent runs on this
// host.
[[nodiscard]] std::vector<std::string> start_argv(const HostsRequest& request, const JobHost& host);

// The environment for start_argv(). On this host, muster's settings are removed from it, because
// the agent receives them as arguments.
[[nodiscard]] Environ start_environ(const HostsRequest& request,
                                    const JobHost& host,
                                    const Environ& ours);

// The command as text, with words quoted for a POSIX shell.
[[nodiscard]] std::string quoted(std::span<const std::string> words);

// The setup message for the head of a branch, including the hosts that it must start.
[[nodiscard]] SetupMessage setup_for(const HostsRequest& request, const Branch& branch);

// The rendezvous endpoints: the address at which the first host was reached, and its name as typed.
// Loopback addresses are used only if all hosts are loopback names. If the first host is this host,
// `caller` is its address: the source address of a connection to another host.
[[nodiscard]] std::string endpoint_of(const HostsRequest& request,
                                      const HelloMessage& first,
                                      const std::string& caller);

// The arguments of the launcher on host number `host` of the list.
[[nodiscard]] std::vector<std::string> agent_args(const HostsRequest& request,
                                                  std::size_t host,
                                                  const std::string& endpoint);

// The plan as text, for --explain.
[[nodiscard]] std::string describe_hosts(const HostsRequest& request);

}  // namespace muster
