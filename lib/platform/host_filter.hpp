// SPDX-License-Identifier: Apache-2.0
// --include and --exclude, as in DeepSpeed's launcher: NAME[:SLOT,...][@NAME...] selects hosts in
// --hosts, and GPUs on them. Called by config/resolve_hosts. Pure.
#pragma once

#include "base/error.hpp"
#include "platform/job_hosts.hpp"

#include <string_view>
#include <vector>

namespace muster {

enum class HostFilter { include, exclude };

// A slot is the index of a GPU. A host without a list of GPUs has slots 0 to its number of workers
// minus 1. NAME without slots selects the whole host, unchanged. Keeps the order of `hosts`. Error:
// usage, for a name or a slot that `hosts` does not contain, or if no host remains.
[[nodiscard]] Result<std::vector<JobHost>> filter_hosts(const std::vector<JobHost>& hosts,
                                                        HostFilter filter,
                                                        std::string_view text);

}  // namespace muster
