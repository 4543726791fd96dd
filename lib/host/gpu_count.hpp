// SPDX-License-Identifier: Apache-2.0
// How many GPUs a program started with this environment would see, by the rules of CUDA's and
// ROCm's visibility variables, without either library. Used by LinuxMachine. Pure.
#pragma once

#include "base/environ.hpp"
#include "host/machine.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// What the kernel's files show, before any variable.
struct GpuDevices {
  int nvidia_proc = 0;                      // folders in /proc/driver/nvidia/gpus
  int nvidia_nodes = 0;                     // /dev/nvidia0, /dev/nvidia1 …
  std::vector<std::string> nvidia_uuids{};  // "GPU-8932f937-…", where readable
  int amd = 0;                              // nodes of /sys/class/kfd with compute units
};

// How many entries of a visibility list are in force when `present` devices are there: integers as
// strtoul reads them, or unique prefixes of UUIDs; cut at the first invalid one, none at all if one
// is repeated.
[[nodiscard]] int visible_count(std::string_view list,
                                int present,
                                const std::vector<std::string>& uuids);

[[nodiscard]] Count count_gpus(const GpuDevices& devices, const Environ& environ);

}  // namespace muster
