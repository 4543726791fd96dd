// SPDX-License-Identifier: Apache-2.0
// From the text of a program in PTX to its kernels. Strict: what the table of instructions
// (ptx_forms) does not have, and any operand of another type than the instruction's, is an error.
// Called when a module is loaded. Pure.
#pragma once

#include "fakes/cuda/ptx.hpp"

#include <expected>
#include <string_view>

namespace muster::fake {

// The error names the line: "line 12: %t9 is not declared".
[[nodiscard]] std::expected<std::vector<Kernel>, std::string> parse_ptx(std::string_view text);

}  // namespace muster::fake
