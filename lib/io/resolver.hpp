// SPDX-License-Identifier: Apache-2.0
// Names to numeric addresses for callers that may wait: the blocking store client, command-line
// tools, a program that has not started its loop yet. On a loop use io/name_lookup.hpp. Never calls
// getaddrinfo: in a static binary it loads the target machine's NSS modules and may crash there.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <string>
#include <vector>

namespace muster {

// The name's addresses, numeric, IPv4 before IPv6, never empty. A numeric address is returned as it
// is; "localhost" and names below it are the loopback addresses, whatever any file says; else
// /etc/hosts and then the DNS servers of /etc/resolv.conf are asked. Returns within `timeout`.
// Errors: not_found (no such name), timed_out (silent servers), unreachable (no server), usage (not
// a name), each with the name and what to do.
[[nodiscard]] Result<std::vector<std::string>> resolve_blocking(const std::string& name,
                                                                Duration timeout);

}  // namespace muster
