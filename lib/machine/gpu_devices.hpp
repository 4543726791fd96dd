// SPDX-License-Identifier: Apache-2.0
// The GPUs on this host that this process may open, from /proc, /dev and /sys, without the drivers'
// libraries. Used by LinuxMachine. Opens each NVIDIA device briefly and creates no context.
#pragma once

#include "machine/gpu_count.hpp"

#include <string>

namespace muster {

// `root` is prepended to "/proc", "/sys" and "/dev".
[[nodiscard]] GpuDevices find_gpus(const std::string& root);

// True if any NVIDIA GPU is partitioned into MIG slices, whether visible to us or not. Opens no
// device.
[[nodiscard]] bool has_slices(const std::string& root);

// True if there are AMD GPUs and no NVIDIA driver. Opens no device.
[[nodiscard]] bool has_only_amd_gpus(const std::string& root);

}  // namespace muster
