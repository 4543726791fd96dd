// SPDX-License-Identifier: Apache-2.0
#include "agent/store_place.hpp"

#include <utility>
#include <vector>

#include <arpa/inet.h>

namespace muster {
namespace {

bool is_numeric(const std::string& address) {
  in6_addr parsed{};
  return ::inet_pton(AF_INET, address.c_str(), &parsed) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), &parsed) == 1;
}

}  // namespace

std::vector<std::string> listening_addresses(const std::string& master_addr) {
  if (is_numeric(master_addr)) {
    return {master_addr};
  }
  if (master_addr == "localhost") {
    return {"127.0.0.1"};
  }
  return {"::", "0.0.0.0"};
}

Result<std::unique_ptr<StoreServer>> open_store(asio::io_context& loop,
                                                const std::string& master_addr,
                                                std::uint16_t port) {
  Result<std::unique_ptr<StoreServer>> store = failure(Errc::internal, "no address to listen on");
  for (const std::string& address : listening_addresses(master_addr)) {
    store = StoreServer::open(loop, address, port);
    if (store) {
      break;
    }
  }
  return store;
}

}  // namespace muster
