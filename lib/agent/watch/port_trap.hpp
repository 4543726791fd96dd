// SPDX-License-Identifier: Apache-2.0
// A program that sets MASTER_PORT itself, as tutorials for one machine do, looks for the workers'
// store where nobody serves it, and waits without a word. What is known of that, and the one line
// that says it. Pure.
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

// Where the launcher serves the workers' store.
struct StoreFacts {
  std::string address;
  std::uint16_t port = 0;
  int seconds = 0;      // nobody has come to it for so long
  bool is_here = true;  // else this launcher knows of its own machine's processes only
};

// A process of the workers, and what stands in its environment now.
struct WorkerEnvironment {
  pid_t pid = 0;
  std::string command;
  std::map<std::string, std::string> variables;
};

// The port that the process has put into MASTER_PORT, if it is not the store's and the process
// still expects the launcher to serve there.
[[nodiscard]] std::optional<std::uint16_t> wrong_port(const StoreFacts& store,
                                                      const WorkerEnvironment& worker);

// Whether a socket listens on this port, by the text of /proc/net/tcp or tcp6.
[[nodiscard]] bool listens_in(std::string_view proc_net_tcp, std::uint16_t port);

// Whether a socket is connected with this port, of whatever machine, by the same text. Those in
// `own`, numbers as in "socket:[N]", do not count: launchers meet at the store's port, too.
[[nodiscard]] bool connects_in(std::string_view proc_net_tcp,
                               std::uint16_t port,
                               const std::set<std::string, std::less<>>& own);

[[nodiscard]] std::string describe_trap(const StoreFacts& store,
                                        const WorkerEnvironment& worker,
                                        std::uint16_t wrong);

}  // namespace muster
