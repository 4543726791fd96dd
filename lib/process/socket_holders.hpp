// SPDX-License-Identifier: Apache-2.0
// Whether a process below this one has a socket open. Stateless.
#pragma once

#include <cstdint>

namespace muster {

// By its inode ("socket:[N]" in /proc/PID/fd). Processes of other users are seen by root alone.
[[nodiscard]] bool has_descendant_socket(std::uint64_t inode);

}  // namespace muster
