// SPDX-License-Identifier: Apache-2.0
// Slurm's two compact notations: host lists ("rack[0-1]n[01-16],login") and repetitions
// ("2(x3),1"). Both come from the environment, so their size is limited, and invalid text is
// rejected with a reason. Pure.
#pragma once

#include "base/error.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace muster {

// The maximum number of names in a list. Slurm has the same limit for one range.
inline constexpr std::size_t kHostsMax = 65'536;

// The names in the order of `scontrol show hostnames`, including duplicates. Accepts a suffix after
// the last bracket, like Slurm 23.11. Outside brackets, blanks separate names like commas. Error:
// usage, with the invalid entry and the reason.
[[nodiscard]] Result<std::vector<std::string>> expand_host_list(std::string_view text);

// "2(x3),1" gives {2, 2, 2, 1}. Error: usage.
[[nodiscard]] Result<std::vector<int>> expand_repetitions(std::string_view text);

}  // namespace muster
