// SPDX-License-Identifier: Apache-2.0
// The back ends for memory of the host: a table from names to what opens them. A new one is a
// folder of its own, a row here, and a number in Backend.
#pragma once

#include "base/environ.hpp"
#include "collective/bootstrap/bootstrap.hpp"
#include "collective/bootstrap/hosts.hpp"
#include "collective/communicator.hpp"
#include "collective/shm/segment.hpp"
#include "collective/transport/host_transport.hpp"

#include <memory>
#include <string_view>

namespace muster::collective {

// What there is when a back end is opened, by all ranks at the same point. The segment outlives the
// transport, the others only the call.
struct HostTransportContext {
  const BootstrapContext& bootstrap;
  Segment& segment;
  const Hosts& hosts;
  const CommOptions& options;
  const Environ& environ;
};

struct OpenedTransport {
  std::unique_ptr<HostTransport> transport;
  PeerWatch* peers = nullptr;  // of all ranks; part of the transport or the segment
};

using TransportOpener = Result<OpenedTransport> (*)(const HostTransportContext& context);

// By name_of(Backend). Null: there is no such back end.
[[nodiscard]] TransportOpener transport_opener(std::string_view name);

}  // namespace muster::collective
