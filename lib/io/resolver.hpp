// SPDX-License-Identifier: Apache-2.0
// Resolves names to numeric addresses for callers that may block: the blocking store client,
// command-line tools, and programs that have not started their loop yet. Code on a loop uses
// io/name_lookup.hpp. Never calls getaddrinfo, which in a static binary loads the host's NSS
// modules and may crash.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <string>
#include <vector>

namespace muster {

// Returns the name's numeric addresses, IPv4 before IPv6; the list is never empty. A numeric
// address is returned unchanged. "localhost" and its subdomains always resolve to the loopback
// addresses, whatever /etc/hosts contains. Other names are looked up in /etc/hosts and then with
// the DNS servers in /etc/resolv.conf. Returns within `timeout`. Errors: not_found (no such name),
// timed_out (no response), unreachable (no server), usage (not a name). Each message contains the
// name and a remedy.
[[nodiscard]] Result<std::vector<std::string>> resolve_blocking(const std::string& name,
                                                                Duration timeout);

}  // namespace muster
