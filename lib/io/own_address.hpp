// SPDX-License-Identifier: Apache-2.0
// Whether an address is one of this machine, for who binds it and for who judges a peer by it. The
// kernel is asked; nothing is sent. Stateless.
#pragma once

#include <string>
#include <string_view>

namespace muster {

[[nodiscard]] bool is_loopback(std::string_view address);

inline constexpr const char* kLoopback = "127.0.0.1";

// kLoopback, or "::1" on a host whose loopback interface has only that.
[[nodiscard]] std::string loopback_address();

// Whether a numeric address is one of this machine (or of the container that we are in).
[[nodiscard]] bool is_own_address(const std::string& address);

}  // namespace muster
