// SPDX-License-Identifier: Apache-2.0
#include "agent/watch/debug_clients.hpp"

#include <fmt/core.h>

#include <string>

#include <arpa/inet.h>

namespace muster {

// A line is "NUMBER: LOCAL:PORT REMOTE:PORT STATE …" in hexadecimal. Addresses are in network byte
// order, ports and states are not.
bool has_client(std::string_view table, std::uint16_t port) {
  constexpr std::string_view kEstablished = " 01 ";
  const std::string local = fmt::format(": {:08X}:{:04X} ", htonl(INADDR_LOOPBACK), port);
  for (auto at = table.find(local); at != std::string_view::npos; at = table.find(local, at + 1)) {
    const auto state = table.find(' ', at + local.size());
    if (state != std::string_view::npos &&
        table.substr(state, kEstablished.size()) == kEstablished) {
      return true;
    }
  }
  return false;
}

}  // namespace muster
