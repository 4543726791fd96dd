// SPDX-License-Identifier: Apache-2.0
// Where the workers' store listens, given what the workers will dial. Used by the agent for each
// round; no name is looked up.
#pragma once

#include "base/error.hpp"
#include "rendezvous/server/server.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace muster {

// The addresses to try in order: a numeric one is taken as it is; "localhost" is 127.0.0.1, which
// clients try as well where they try ::1 first; any other name may be any address of this machine.
[[nodiscard]] std::vector<std::string> listening_addresses(const std::string& master_addr);

[[nodiscard]] Result<std::unique_ptr<StoreServer>> open_store(asio::io_context& loop,
                                                              const std::string& master_addr,
                                                              std::uint16_t port);

}  // namespace muster
