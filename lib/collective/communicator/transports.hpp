// SPDX-License-Identifier: Apache-2.0
// Backends for host memory: a table that maps names to functions that open them. A new backend
// needs its own directory, a row in this table and a value in the enum Backend.
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

// Arguments for opening a backend. All ranks open the backend at the same point. The segment
// outlives the transport; the other references are valid only during the call.
struct HostTransportContext {
  const BootstrapContext& bootstrap;
  Segment& segment;
  const Hosts& hosts;
  const CommOptions& options;
  const Environ& environ;
};

struct OpenedTransport {
  std::unique_ptr<HostTransport> transport;
  PeerWatch* peers = nullptr;  // watches all ranks; part of the transport or the segment
};

using TransportOpener = Result<OpenedTransport> (*)(const HostTransportContext& context);

// Looks up a backend by name_of(Backend). Null if no backend has this name.
[[nodiscard]] TransportOpener transport_opener(std::string_view name);

}  // namespace muster::collective
