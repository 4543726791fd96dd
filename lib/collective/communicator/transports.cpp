// SPDX-License-Identifier: Apache-2.0
#include "collective/communicator/transports.hpp"

#include "collective/bootstrap/environment.hpp"
#include "collective/hier/hier_transport.hpp"
#include "collective/shm/shm_transport.hpp"
#include "collective/tcp/tcp_socket.hpp"
#include "collective/tcp/tcp_transport.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace muster::collective {
namespace {

Result<std::unique_ptr<Mesh>> connect_mesh(const HostTransportContext& context) {
  std::string address = context.options.address;
  if (address.empty()) {
    const std::string store = context.environ.get("MASTER_ADDR").value_or("127.0.0.1");
    address = address_towards(store, left_until(context.bootstrap.deadline));
  }
  const auto ports = ports_named(context.options.port_range);
  MUSTER_RETURN_IF_ERROR(ports);
  const Mesh::Place place{.address = address.empty() ? "127.0.0.1" : address, .ports = *ports};
  return Mesh::connect(context.bootstrap, place, context.segment);
}

Result<OpenedTransport> open_shm(const HostTransportContext& context) {
  return OpenedTransport{std::make_unique<ShmTransport>(context.segment), &context.segment};
}

Result<OpenedTransport> open_tcp(const HostTransportContext& context) {
  auto mesh = connect_mesh(context);
  MUSTER_RETURN_IF_ERROR(mesh);
  PeerWatch* const peers = mesh->get();
  return OpenedTransport{std::make_unique<TcpTransport>(std::move(*mesh)), peers};
}

Result<OpenedTransport> open_hier(const HostTransportContext& context) {
  auto mesh = connect_mesh(context);
  MUSTER_RETURN_IF_ERROR(mesh);
  PeerWatch* const peers = mesh->get();
  return OpenedTransport{
      std::make_unique<HierTransport>(std::move(*mesh), context.segment, context.hosts), peers};
}

struct Row {
  std::string_view name;
  TransportOpener open;
};

constexpr std::array<Row, 3> kTransports{{
    {"shm", open_shm},
    {"tcp", open_tcp},
    {"hier", open_hier},
}};

}  // namespace

TransportOpener transport_opener(std::string_view name) {
  const auto* const found = std::ranges::find(kTransports, name, &Row::name);
  return found == kTransports.end() ? nullptr : found->open;
}

}  // namespace muster::collective
