// SPDX-License-Identifier: Apache-2.0
// What the environment of a worker says: who it is, where the store is, what overrides options.
// Pure but for open_store.
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
  bool agent_store = false;  // the launcher serves it; else rank 0 does
};

// RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_*. Error: invalid_argument, naming the
// variable.
[[nodiscard]] Result<WorkerPlace> worker_place(const Environ& environ);

// With what MUSTER_COLLECTIVE_BACKEND, _HOST, _ADDRESS, _PORT_RANGE, _TIMEOUT, _INIT_TIMEOUT,
// _FLIGHT_DIR, _FLIGHT_ENTRIES and _ARENA say instead.
[[nodiscard]] Result<CommOptions> with_overrides(CommOptions options, const Environ& environ);

// The ports of "29500-29599"; empty: any. Error: invalid_argument.
[[nodiscard]] Result<PortRange> ports_named(const std::string& text);

// Connects, and serves it first if that is ours to do.
[[nodiscard]] Result<std::shared_ptr<Store>> open_store(const WorkerPlace& place, Duration timeout);

}  // namespace muster::collective
