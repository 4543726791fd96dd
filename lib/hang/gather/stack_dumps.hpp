// SPDX-License-Identifier: Apache-2.0
// Parses the output of the stack dumpers: py-spy dump --json, and eu-stack. The output is
// untrusted, because the inspected process may be corrupt. Pure.
#pragma once

#include "hang/evidence.hpp"

#include <string_view>
#include <vector>

namespace muster::hang {

// Further threads and deeper frames are dropped.
inline constexpr std::size_t kThreadsMax = 256;
inline constexpr std::size_t kFramesMax = 64;

// Empty if the text is not a valid dump.
[[nodiscard]] std::vector<Stack> parse_py_spy(std::string_view text);
[[nodiscard]] std::vector<Stack> parse_eu_stack(std::string_view text);

}  // namespace muster::hang
