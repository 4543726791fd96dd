// SPDX-License-Identifier: Apache-2.0
// Resolves names to numeric addresses for callers that may block: the blocking store client,
// command-line tools, a program that has not started its loop yet. On a loop use
// io/name_lookup.hpp. Never calls getaddrinfo, which in a static binary loads the host's NSS
// modules and may crash.
#pragma once

#include "base/error.hpp"
#include "base/time.hpp"

#include <string>
#include <vector>

namespace muster {

// The name's addresses, numeric, IPv4 before IPv6, never empty. A numeric address is returned
// unchanged. "localhost" and its subdomains are the loopback addresses, regardless of any file.
// Otherwise queries /etc/hosts and then the DNS servers in /etc/resolv.conf. Returns within
// `timeout`. Errors: not_found (no such name), timed_out (no response), unreachable (no server),
// usage (not a name), each with the name and what to do.
[[nodiscard]] Result<std::vector<std::string>> resolve_blocking(const std::string& name,
                                                                Duration timeout);

}  // namespace muster
