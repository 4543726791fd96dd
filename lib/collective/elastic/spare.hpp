// SPDX-License-Identifier: Apache-2.0
// A spare worker (muster --spare-workers): a process without a rank that waits in elastic::run
// until it replaces a failed rank. Functions; the thread that trains calls them.
#pragma once

#include "base/cpu_set.hpp"
#include "collective/error.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::collective::elastic {

// The rank's CPUs, and the environment variables that change; one without a value is removed.
struct SpareStart {
  CpuSet cpus;
  std::vector<std::pair<std::string, std::optional<std::string>>> variables;
};

// Parses the launcher's description of the worker (CHANNEL.md). Pure.
[[nodiscard]] SpareStart parse_spare_start(std::string_view text);

// In a spare worker, waits for the launcher, then changes the environment, the streams and the CPUs
// of this process to those of the rank that it replaces. Exits if the job ends first. No-op in
// other processes. Error: system.
[[nodiscard]] Result<void> become_worker();

}  // namespace muster::collective::elastic
