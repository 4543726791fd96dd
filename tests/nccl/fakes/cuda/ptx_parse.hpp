// SPDX-License-Identifier: Apache-2.0
// Parses the text of a PTX program into kernels. Strict: an instruction that is not in the table
// (ptx_forms), or an operand of a different type, is an error. Called when a module is loaded.
// Pure.
#pragma once

#include "nccl/fakes/cuda/ptx.hpp"

#include <expected>
#include <string_view>

namespace muster::fake {

// The error names the line: "line 12: %t9 is not declared".
[[nodiscard]] std::expected<std::vector<Kernel>, std::string> parse_ptx(std::string_view text);

}  // namespace muster::fake
