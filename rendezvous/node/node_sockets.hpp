// SPDX-License-Identifier: Apache-2.0
// A node's own listener, and the listeners of its endpoints. main creates the NodeSockets before it
// splits into guard and agent. So the guard keeps the listening socket open until it has killed the
// agent's workers, and a refused connection proves that the agent and its workers are dead.
// Resources; one thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "io/own_address.hpp"
#include "rendezvous/server/listener.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Sockets that are bound later, when the address is known. Only one of the two will listen.
struct NodeSockets {
  UniqueFd v4;
  UniqueFd v6;  // not set on a host without IPv6
};

[[nodiscard]] Result<NodeSockets> make_node_sockets();

// A node's own listener, and the address that the node announces.
struct OwnListener {
  UniqueFd fd;
  std::string address;
  std::uint16_t port = 0;
};

// Uses one of the sockets. `local_addr`, if set, is announced. The node listens on it if it is a
// local address, otherwise (behind NAT) on all addresses. If `local_addr` is not set, `reached_by`
// is used: a local address from which other nodes were reached.
[[nodiscard]] Result<OwnListener> open_own_listener(NodeSockets& sockets,
                                                    const std::string& local_addr,
                                                    const std::string& reached_by,
                                                    PortRange range);

// One endpoint, with its resolved addresses.
struct EndpointPlace {
  std::string host;  // as typed by the user
  std::uint16_t port = 0;
  std::vector<std::string> addresses;  // numeric
};

enum class EndpointState {
  ours,       // we listen there
  taken,      // on this host, but another program listens there
  elsewhere,  // on another host
};

struct EndpointBinding {
  EndpointState state = EndpointState::elsewhere;
  std::vector<UniqueFd> listeners;
  std::string address;  // address at which other nodes reach us, if known
};

// Determines whether this node owns the endpoint by binding it, never by comparing names. If a name
// has several addresses, the lowest one decides, so that two hosts with the same name do not both
// own it. If the endpoint is an address or localhost, only that address is bound. If it is a name
// of this host, all addresses are bound, because other nodes may resolve the name differently.
[[nodiscard]] EndpointBinding bind_endpoint(const EndpointPlace& place);

// Listens on all addresses, for a node that must host the rendezvous although the address is not
// local.
[[nodiscard]] Result<EndpointBinding> bind_everywhere(std::uint16_t port);

}  // namespace muster
