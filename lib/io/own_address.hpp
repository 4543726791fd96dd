// SPDX-License-Identifier: Apache-2.0
// Checks whether an address belongs to this host, for callers that bind to it or use it to identify
// a peer. Queries the kernel and sends nothing. Stateless.
#pragma once

#include <string>
#include <string_view>

namespace muster {

[[nodiscard]] bool is_loopback(std::string_view address);

inline constexpr const char* kLoopback = "127.0.0.1";

// kLoopback, or "::1" on a host whose loopback interface has only that address.
[[nodiscard]] std::string loopback_address();

// True if a numeric address belongs to this host, or to the container in which this process runs.
[[nodiscard]] bool is_own_address(const std::string& address);

}  // namespace muster
