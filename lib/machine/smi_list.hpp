// SPDX-License-Identifier: Apache-2.0
// Parses the GPUs and MIG slices in the output of "nvidia-smi -L". Called by LinuxMachine if the
// kernel's files do not contain the names. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct SmiGpu {
  std::string model;
  std::string uuid;                 // "GPU-48aeb943-..."
  std::vector<std::string> slices;  // "MIG-fb42055e-..."; older drivers: "MIG-GPU-.../1/0"
  bool operator==(const SmiGpu&) const = default;
};

// Skips lines that describe neither a GPU nor a slice, and slices without a GPU.
[[nodiscard]] std::vector<SmiGpu> parse_smi_list(std::string_view text);

}  // namespace muster
