// SPDX-License-Identifier: Apache-2.0
// Ports that all launchers of a job derive alike from what identifies it, since no one can tell
// them. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace muster {

// Candidates lie from here on: above the ports of services, below those that Linux gives to
// connections (32768) and Kubernetes to services (30000).
inline constexpr std::uint16_t kJobPortFirst = 20'000;
inline constexpr std::uint16_t kJobPortCount = 9'000;
inline constexpr int kJobPortCandidates = 8;

// `job` names the job uniquely within its site: "slurm/cluster/8812/0".
[[nodiscard]] std::vector<std::uint16_t> job_ports(std::string_view job,
                                                   std::uint16_t first = kJobPortFirst,
                                                   std::uint16_t count = kJobPortCount);

}  // namespace muster
