// SPDX-License-Identifier: Apache-2.0
// Ports that all launchers of a job derive identically from the job's identity, because they cannot
// communicate yet. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace muster {

// The range of candidates: above the ports of common services, and below Linux's ephemeral ports
// (from 32768) and Kubernetes' node ports (from 30000).
inline constexpr std::uint16_t kJobPortFirst = 20'000;
inline constexpr std::uint16_t kJobPortCount = 9'000;
inline constexpr int kJobPortCandidates = 8;

// `job` identifies the job uniquely within its site: "slurm/cluster/8812/0".
[[nodiscard]] std::vector<std::uint16_t> job_ports(std::string_view job,
                                                   std::uint16_t first = kJobPortFirst,
                                                   std::uint16_t count = kJobPortCount);

}  // namespace muster
