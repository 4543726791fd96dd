// SPDX-License-Identifier: Apache-2.0
// The state of NVIDIA's GPUs as nvidia-smi prints it. Part of measure_node.hpp. Pure; thread-safe.
#pragma once

#include "check/figures.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster::check {

// Arguments for nvidia-smi, without its name.
[[nodiscard]] std::vector<std::string> gpu_query_arguments();

// Adds the GPUs' figures. Fields that a GPU does not support ("[N/A]") are ignored. False if the
// text contains no GPU.
[[nodiscard]] bool parse_gpu_query(std::string_view text, NodeFigures& out);

}  // namespace muster::check
