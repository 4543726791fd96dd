// SPDX-License-Identifier: Apache-2.0
// The lower bound for every store: an epoll server that does not parse anything. A client announces
// the lengths of its requests and answers; the server then only counts bytes. Called by the `echo`
// command. Runs until the process exits.
#pragma once

#include "base/error.hpp"

#include <cstdint>

namespace muster::bench {

// Serves on 127.0.0.1:port until the process is killed. Returns only on an error.
[[nodiscard]] Result<void> serve_echo(std::uint16_t port);

}  // namespace muster::bench
