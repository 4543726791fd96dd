// SPDX-License-Identifier: Apache-2.0
// A node's own listener, and its endpoints: which sockets listen where. main makes the NodeSockets
// before it splits into guard and agent, so that the guard holds the listening socket open until
// it has swept the agent's workers: a connection that is refused then proves that both are gone.
// Resources; one thread.
#pragma once

#include "base/error.hpp"
#include "base/fd.hpp"
#include "rendezvous/server/listener.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace muster {

// Whether only this machine can dial a numeric address.
[[nodiscard]] bool is_loopback(const std::string& address);

// Whether a numeric address is one of this machine.
[[nodiscard]] bool is_own_address(const std::string& address);

// Not bound yet: the address is known only later. One of them will listen.
struct NodeSockets {
  UniqueFd v4;
  UniqueFd v6;  // none on a machine without IPv6
};

[[nodiscard]] Result<NodeSockets> make_node_sockets();

// Where a node listens for itself, and what it tells the others.
struct OwnListener {
  UniqueFd fd;
  std::string address;
  std::uint16_t port = 0;
};

// Takes one of the sockets. With `local_addr` that one is announced, and also listened on if it is
// this machine's (behind a translated address it is not: then on all). Otherwise `reached_by`: an
// address of ours by which others are reached.
[[nodiscard]] Result<OwnListener> open_own_listener(NodeSockets& sockets,
                                                    const std::string& local_addr,
                                                    const std::string& reached_by,
                                                    PortRange range);

// One endpoint, its name looked up.
struct EndpointPlace {
  std::string host;  // as typed
  std::uint16_t port = 0;
  std::vector<std::string> addresses;  // numeric
};

enum class EndpointState {
  ours,       // we listen there
  taken,      // it is this machine's, and somebody else listens there
  elsewhere,  // another machine's
};

struct EndpointBinding {
  EndpointState state = EndpointState::elsewhere;
  std::vector<UniqueFd> listeners;
  std::string address;  // by which others reach us, as far as it tells
};

// Decided by binding, never by comparing names. Of several addresses the lowest one decides, so
// that two machines that share a name do not both own it. An address as typed, or localhost, is
// listened on alone; for a name of this machine all addresses are, since others may know the name
// by another one of them.
[[nodiscard]] EndpointBinding bind_endpoint(const EndpointPlace& place);

// For who is told to host although the address is not this machine's.
[[nodiscard]] Result<EndpointBinding> bind_everywhere(std::uint16_t port);

}  // namespace muster
