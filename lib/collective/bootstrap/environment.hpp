// SPDX-License-Identifier: Apache-2.0
// Reads a worker's environment: its rank, the store's address and option overrides. Pure, except
// for open_store.
#pragma once

#include "base/environ.hpp"
#include "collective/communicator.hpp"
#include "rendezvous/server/listener.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace muster::collective {

struct WorkerPlace {
  Membership membership;
  std::string store_host;
  std::uint16_t store_port = 0;
  bool agent_store = false;  // whether the launcher serves the store; if not, rank 0 does
};

// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_*. Error: invalid_argument,
// naming the variable.
[[nodiscard]] Result<WorkerPlace> worker_place(const Environ& environ);

// Applies MUSTER_COLLECTIVE_BACKEND, _HOST, _ADDRESS, _PORT_RANGE, _TIMEOUT, _INIT_TIMEOUT,
// _FLIGHT_DIR, _FLIGHT_ENTRIES and _ARENA.
[[nodiscard]] Result<CommOptions> with_overrides(CommOptions options, const Environ& environ);

// Parses a port range such as "29500-29599"; empty means any port. Error: invalid_argument.
[[nodiscard]] Result<PortRange> ports_named(const std::string& text);

// Connects to the store. Starts the store server first if this rank has to serve it.
[[nodiscard]] Result<std::shared_ptr<Store>> open_store(const WorkerPlace& place, Duration timeout);

}  // namespace muster::collective
