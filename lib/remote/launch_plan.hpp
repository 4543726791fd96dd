// SPDX-License-Identifier: Apache-2.0
// The plan of a launch on other machines: who starts whom, by which command line, and what each
// agent is to run. Pure.
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

// Where each agent finds the job's token, which nobody else can open.
inline constexpr const char* kSentToken = "/dev/stdin";

// The hidden option by which a remote shell starts the same program.
inline constexpr std::string_view kRemoteAgentFlag = "--remote-agent";

// Machines of the list, [head, end): the head is started from here, and starts the rest.
struct Branch {
  std::size_t head = 0;
  std::size_t end = 0;
  bool operator==(const Branch&) const = default;
};

// How [first, end) is divided among at most `fanout` machines, in order and as evenly as can be.
[[nodiscard]] std::vector<Branch> branches(std::size_t first, std::size_t end, std::size_t fanout);

// The one word that the remote shell hands to a shell on the other machine.
[[nodiscard]] std::string remote_command(const std::string& muster);

// The local command line: remote shell, options, host, command.
[[nodiscard]] std::vector<std::string> rsh_argv(const std::vector<std::string>& rsh,
                                                const std::string& target,
                                                const std::string& command);

// How the agent of a machine is started: by the remote shell; on this machine by a shell.
[[nodiscard]] std::vector<std::string> start_argv(const HostsRequest& request, const JobHost& host);

// The environment for that. On this machine it holds no settings: the agent gets them as arguments.
[[nodiscard]] Environ start_environ(const HostsRequest& request,
                                    const JobHost& host,
                                    const Environ& ours);

// The same for people, each word quoted where a POSIX shell would need it.
[[nodiscard]] std::string quoted(std::span<const std::string> words);

// For the head of a branch; what is behind it is its own to start.
[[nodiscard]] SetupMessage setup_for(const HostsRequest& request, const Branch& branch);

// Where the agents meet: the address at which the first one was reached, and the name that was
// typed for it. A loopback address counts only where all machines have one. If the first one is
// this machine, `caller` is its address: the one from which another machine was reached.
[[nodiscard]] std::string endpoint_of(const HostsRequest& request,
                                      const HelloMessage& first,
                                      const std::string& caller);

// The launcher's arguments on machine `host` of the list.
[[nodiscard]] std::vector<std::string> agent_args(const HostsRequest& request,
                                                  std::size_t host,
                                                  const std::string& endpoint);

// What would be done, for --explain.
[[nodiscard]] std::string describe_hosts(const HostsRequest& request);

}  // namespace muster
