// SPDX-License-Identifier: Apache-2.0
// Machines as documented by their manufacturers: nodes, sockets, cores, caches, and the location of
// GPUs. For the tests of binding, which contain the expected masks. The .cpp file names each
// machine.
#pragma once

#include "unit/machine/sysfs_tree.hpp"

#include <string>
#include <vector>

namespace muster::testing {

using Addresses = std::vector<std::string>;

extern const Addresses kDgxH100Gpus;
extern const Addresses kDgxA100Gpus;
extern const Addresses kMi300xGpus;
extern const Addresses kFrontierGpus;
extern const Addresses kGb200Gpus;
extern const Addresses kPower9Gpus;
extern const Addresses kCloudGpus;

[[nodiscard]] SysfsTree dgx_h100();
[[nodiscard]] SysfsTree dgx_h100_without_threads();
[[nodiscard]] SysfsTree dgx_a100();
[[nodiscard]] SysfsTree mi300x();
[[nodiscard]] SysfsTree frontier();
[[nodiscard]] SysfsTree gb200();
[[nodiscard]] SysfsTree power9();
[[nodiscard]] SysfsTree sub_numa_clusters();
[[nodiscard]] SysfsTree cloud();
[[nodiscard]] SysfsTree alternating();
[[nodiscard]] SysfsTree two_sockets();

}  // namespace muster::testing
