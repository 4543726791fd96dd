// SPDX-License-Identifier: Apache-2.0
// The GPUs and MIG slices that "nvidia-smi -L" lists. Called by LinuxMachine, where the kernel's
// files do not have the names. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

struct SmiGpu {
  std::string model;
  std::string uuid;                 // "GPU-48aeb943-..."
  std::vector<std::string> slices;  // "MIG-fb42055e-..." or, of older drivers, "MIG-GPU-.../1/0"
  bool operator==(const SmiGpu&) const = default;
};

// Lines that are neither a GPU's nor a slice's are passed over, and so is a slice without a GPU.
[[nodiscard]] std::vector<SmiGpu> parse_smi_list(std::string_view text);

}  // namespace muster
