// SPDX-License-Identifier: Apache-2.0
// The use of NVIDIA's GPUs by processes and their descendants, from the output of nvidia-smi.
// Values and pure functions.
#pragma once

#include "process/tree/descendants.hpp"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace muster {

struct GpuUse {
  double busy = 0;           // sum of the utilization of the GPUs that it uses; 1 is a whole GPU
  std::uint64_t memory = 0;  // bytes
  bool operator==(const GpuUse&) const = default;
};

// A command that prints the utilization of each GPU, then the processes that use GPUs. Prints
// nothing without nvidia-smi.
[[nodiscard]] std::vector<std::string> gpu_use_command();

// `text`: the output of the command. `rows`: parents before their children. Contains only roots
// that use a GPU. The utilization of a GPU counts for each root that uses it.
[[nodiscard]] std::map<pid_t, GpuUse> sum_gpu_use(std::string_view text,
                                                  std::span<const pid_t> roots,
                                                  std::span<const ProcessRow> rows);

}  // namespace muster
