// SPDX-License-Identifier: Apache-2.0
// If a program sets MASTER_PORT itself, as tutorials for a single machine do, it connects to a port
// on which no store listens, and waits silently. Detects this from data that the launcher collects,
// and composes the warning. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <sys/types.h>

namespace muster {

// The address at which the launcher serves the workers' store.
struct StoreFacts {
  std::string address;
  std::uint16_t port = 0;
  int seconds = 0;      // seconds without a client
  bool is_here = true;  // this launcher serves the store; if not, check local sockets only
};

// A process in a worker's process tree, with its current environment.
struct WorkerEnvironment {
  pid_t pid = 0;
  std::string command;
  std::map<std::string, std::string> variables;
};

// The port in the process's MASTER_PORT, if it is not the store's port and the process still
// expects the launcher to serve a store there.
[[nodiscard]] std::optional<std::uint16_t> wrong_port(const StoreFacts& store,
                                                      const WorkerEnvironment& worker);

// True if a socket listens on this port, according to the text of /proc/net/tcp or tcp6.
[[nodiscard]] bool listens_in(std::string_view proc_net_tcp, std::uint16_t port);

// True if a socket is connected to this port on any host, according to the same text. Sockets in
// `own` (numbers as in "socket:[N]") do not count, because launchers also connect to the store's
// port.
[[nodiscard]] bool connects_in(std::string_view proc_net_tcp,
                               std::uint16_t port,
                               const std::set<std::string, std::less<>>& own);

[[nodiscard]] std::string describe_trap(const StoreFacts& store,
                                        const WorkerEnvironment& worker,
                                        std::uint16_t wrong);

}  // namespace muster
