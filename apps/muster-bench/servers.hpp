// SPDX-License-Identifier: Apache-2.0
// The store servers that are compared, started on free ports of 127.0.0.1 and ready when returned.
// Called by the store block. Resource type: a server ends with its object.
#pragma once

#include "apps/muster-bench/child.hpp"
#include "apps/muster-bench/dialect.hpp"
#include "apps/muster-bench/peers.hpp"
#include "apps/muster-bench/scratch.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster::bench {

struct Server {
  std::string name;
  Protocol protocol = Protocol::tcpstore;
  std::uint16_t port = 0;
  std::unique_ptr<Child> child;  // none: not installed, or it did not start
  std::string missing;           // why there is none

  // Resident memory in bytes.
  [[nodiscard]] double memory() const;
};

// All four, those that are absent included; each pinned to `cpu` (-1: free to move).
[[nodiscard]] std::vector<Server> start_servers(const Peers& peers,
                                                const Scratch& scratch,
                                                int cpu);

}  // namespace muster::bench
