// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/node/node_sockets.hpp"

#include <cerrno>
#include <net/if.h>
#include <optional>
#include <utility>

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace muster {
namespace {

// Documentation addresses (RFC 5737, RFC 3849). They are used only for route lookups; nothing is
// sent to them.
constexpr const char* kFarV4 = "192.0.2.1";
constexpr const char* kFarV6 = "2001:db8::1";

// A route lookup works with any port; this is the discard port.
constexpr std::uint16_t kDiscardPort = 9;

std::string source_host_towards(const std::string& address) {
  const auto there = SocketAddress::parse(address, kDiscardPort);
  const auto source = there ? source_towards(*there) : std::nullopt;
  return source ? source->host() : std::string();
}

bool is_v6(const std::string& address) {
  return address.find(':') != std::string::npos;
}

// The address of an interface that is up and not a loopback interface, preferably IPv4. Empty if
// there is no such interface.
std::string interface_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return {};
  }
  std::string found;
  for (const int wanted : {AF_INET, AF_INET6}) {
    for (const ifaddrs* one = all; one != nullptr && found.empty(); one = one->ifa_next) {
      const bool is_up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      if (is_up && one->ifa_addr != nullptr && one->ifa_addr->sa_family == wanted) {
        const auto known = SocketAddress::copy_of(*one->ifa_addr);
        found = known->is_link_local() ? std::string() : known->host();
      }
    }
  }
  ::freeifaddrs(all);
  return found;
}

// An address at which other nodes can probably reach this host: the address of the interface with
// the default route. Without a default route, as in an isolated network, it is the address of any
// interface.
std::string outward_address() {
  for (const char* far : {kFarV4, kFarV6}) {
    if (std::string found = source_host_towards(far); !found.empty()) {
      return found;
    }
  }
  const std::string any = interface_address();
  return any.empty() ? "127.0.0.1" : any;
}

// Adds the listener and returns 0, or returns an errno.
int listen_at(const std::string& address, std::uint16_t port, EndpointBinding& binding) {
  const auto parsed = SocketAddress::parse(address, port);
  if (!parsed) {
    return EADDRNOTAVAIL;
  }
  auto fd = try_listen(*parsed);
  if (!fd) {
    return fd.error();
  }
  binding.listeners.push_back(std::move(*fd));
  return 0;
}

int listen_everywhere(std::uint16_t port, EndpointBinding& binding) {
  // "::" also accepts IPv4. The fallback is for hosts on which IPv6 is missing or disabled.
  const int why = listen_at("::", port, binding);
  return why == EAFNOSUPPORT || why == EADDRNOTAVAIL ? listen_at("0.0.0.0", port, binding) : why;
}

// Prefers IPv4 to IPv6, and then the lowest address.
std::string deciding_address(const std::vector<std::string>& addresses) {
  const auto number = [](const std::string& text) {
    const auto parsed = SocketAddress::parse(text, 0);
    const auto* const raw = reinterpret_cast<const unsigned char*>(&parsed->storage);
    return std::pair(is_v6(text), std::string(raw, raw + parsed->size));
  };
  std::string lowest;
  for (const std::string& address : addresses) {
    if (SocketAddress::parse(address, 0) && (lowest.empty() || number(address) < number(lowest))) {
      lowest = address;
    }
  }
  return lowest;
}

void settle_state(int why, EndpointBinding& binding) {
  binding.state = why == 0 ? EndpointState::ours : EndpointState::taken;
}

EndpointBinding bind_localhost(std::uint16_t port) {
  EndpointBinding binding{.listeners = {}, .address = "127.0.0.1"};
  const int v4 = listen_at("127.0.0.1", port, binding);
  // Do not listen on ::1 alone, because nodes might then reach the program that uses 127.0.0.1.
  if (v4 == EADDRINUSE) {
    binding.state = EndpointState::taken;
    return binding;
  }
  // Listening on one of the two addresses suffices, because clients try both.
  const int v6 = listen_at("::1", port, binding);
  if (v4 != 0) {
    binding.address = "::1";
  }
  settle_state(v4 == 0 ? 0 : v6, binding);
  return binding;
}

}  // namespace

Result<NodeSockets> make_node_sockets() {
  NodeSockets sockets;
  auto v4 = make_unbound_socket(AF_INET);
  auto v6 = make_unbound_socket(AF_INET6);
  if (!v4 && !v6) {
    return std::unexpected(std::move(v4.error()));
  }
  if (v4) {
    sockets.v4 = std::move(*v4);
  }
  if (v6) {
    sockets.v6 = std::move(*v6);
  }
  return sockets;
}

Result<OwnListener> open_own_listener(NodeSockets& sockets,
                                      const std::string& local_addr,
                                      const std::string& reached_by,
                                      PortRange range) {
  const std::string& announced = local_addr.empty() ? reached_by : local_addr;
  UniqueFd& chosen = is_v6(announced) ? sockets.v6 : sockets.v4;
  if (!chosen) {
    return failure(
        Errc::system,
        "cannot listen on " + announced + ": this host does not support that IP version");
  }
  const bool everywhere = !is_own_address(announced);
  const std::string address = !everywhere ? announced : is_v6(announced) ? "::" : "0.0.0.0";
  MUSTER_RETURN_IF_ERROR(listen_with(chosen.get(), address, range));
  OwnListener own{.fd = std::move(chosen), .address = announced};
  own.port = port_of(own.fd.get());
  return own;
}

EndpointBinding bind_endpoint(const EndpointPlace& place) {
  if (place.host == "localhost") {
    return bind_localhost(place.port);
  }
  EndpointBinding binding;
  // Check the address before binding, because ip_nonlocal_bind lets any address be bound.
  const std::string address = deciding_address(place.addresses);
  if (address.empty() || !is_own_address(address)) {
    return binding;
  }
  const bool is_name = !SocketAddress::parse(place.host, 0);
  const int why =
      is_name ? listen_everywhere(place.port, binding) : listen_at(address, place.port, binding);
  // Debian's /etc/hosts maps the host's own name to 127.0.1.1, which other nodes cannot reach.
  binding.address = is_name && is_loopback(address) ? outward_address() : address;
  // EADDRNOTAVAIL: the address has just been removed from this host, so the endpoint is not ours.
  binding.state = why == EADDRNOTAVAIL ? EndpointState::elsewhere : EndpointState::ours;
  if (why != 0 && why != EADDRNOTAVAIL) {
    binding.state = EndpointState::taken;
  }
  return binding;
}

Result<EndpointBinding> bind_everywhere(std::uint16_t port) {
  EndpointBinding binding{.listeners = {}, .address = outward_address()};
  if (const int why = listen_everywhere(port, binding); why != 0) {
    Error error = system_error(
        "this host must host the rendezvous but cannot listen on port " + std::to_string(port),
        why);
    if (why == EADDRINUSE) {
      error.message += "; another job, or another launcher with --node-rank=0, is listening there";
    }
    return std::unexpected(std::move(error));
  }
  binding.state = EndpointState::ours;
  return binding;
}

}  // namespace muster
