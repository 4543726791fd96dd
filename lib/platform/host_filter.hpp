// SPDX-License-Identifier: Apache-2.0
// --include and --exclude, as DeepSpeed's launcher has them: NAME[:SLOT,...][@NAME...] chooses
// machines of --hosts, and GPUs on them. Called by config/resolve/resolve_hosts. Pure.
#pragma once

#include "base/error.hpp"
#include "platform/job_hosts.hpp"

#include <string_view>
#include <vector>

namespace muster {

enum class HostFilter { include, exclude };

// A slot is the index of a GPU. A machine without the list of its GPUs has those from 0 up to its
// number of workers. NAME without slots means the whole machine, unchanged.
// The order of `hosts` is kept. Error: usage, for a name or a slot that `hosts` does not have, or
// if no machine remains.
[[nodiscard]] Result<std::vector<JobHost>> filter_hosts(const std::vector<JobHost>& hosts,
                                                        HostFilter filter,
                                                        std::string_view text);

}  // namespace muster
