// SPDX-License-Identifier: Apache-2.0
// The floor below every store: an epoll server that understands nothing. A client announces how
// long its requests are and how many bytes answer one; from then on only lengths are counted.
// Called by the `echo` command. A function that ends only with the process.
#pragma once

#include "base/error.hpp"

#include <cstdint>

namespace muster::bench {

// Serves on 127.0.0.1:port until the process is killed. Returns only on an error.
[[nodiscard]] Result<void> serve_echo(std::uint16_t port);

}  // namespace muster::bench
