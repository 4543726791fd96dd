// SPDX-License-Identifier: Apache-2.0
#include "agent/store/store_address.hpp"

#include "io/own_address.hpp"
#include "io/socket_address.hpp"
#include "rendezvous/server/listener.hpp"

#include <utility>
#include <vector>

namespace muster {
bool needs_lookup(const std::string& master_addr) {
  return master_addr != "localhost" && !is_numeric_address(master_addr);
}

std::string numeric_address(const std::string& master_addr) {
  return master_addr == "localhost" || master_addr == kLoopback ? loopback_address() : master_addr;
}

Result<std::unique_ptr<StoreServer>> open_store(asio::io_context& loop,
                                                const std::vector<std::string>& addresses,
                                                std::uint16_t port,
                                                PortRange range) {
  Result<UniqueFd> listener = failure(Errc::internal, "no address to listen on");
  for (const std::string& address : addresses) {
    listener = port == 0 ? listen_in_range(address, range) : listen_on(address, port);
    if (listener) {
      return StoreServer::open(loop, std::move(*listener));
    }
  }
  return std::unexpected(std::move(listener.error()));
}

}  // namespace muster
