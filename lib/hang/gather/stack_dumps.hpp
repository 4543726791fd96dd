// SPDX-License-Identifier: Apache-2.0
// What the programs that show stacks print, read: py-spy dump --json, and eu-stack. Their output is
// about a process that may have gone wrong, so anything may be in it. Pure.
#pragma once

#include "hang/evidence.hpp"

#include <string_view>
#include <vector>

namespace muster::hang {

// Of more threads or deeper stacks only the first ones are kept.
inline constexpr std::size_t kThreadsMax = 256;
inline constexpr std::size_t kFramesMax = 64;

// Empty where the text is no such dump.
[[nodiscard]] std::vector<Stack> parse_py_spy(std::string_view text);
[[nodiscard]] std::vector<Stack> parse_eu_stack(std::string_view text);

}  // namespace muster::hang
