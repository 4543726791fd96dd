// SPDX-License-Identifier: Apache-2.0
// The GPUs of this machine that this process may open, from /proc, /dev and /sys, without the
// drivers' libraries. Used by LinuxMachine. Opens each NVIDIA device for a moment; makes no
// context.
#pragma once

#include "machine/gpu_count.hpp"

#include <string>

namespace muster {

// `root` is put before "/proc", "/sys" and "/dev".
[[nodiscard]] GpuDevices find_gpus(const std::string& root);

// Whether any NVIDIA GPU is cut into MIG slices, ours or not. Opens nothing.
[[nodiscard]] bool has_slices(const std::string& root);

// Whether there are AMD GPUs and no driver of NVIDIA's. Opens nothing.
[[nodiscard]] bool has_only_amd_gpus(const std::string& root);

}  // namespace muster
