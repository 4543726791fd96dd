// SPDX-License-Identifier: Apache-2.0
// Which GPUs a program started with this environment would see, by the rules of CUDA's and ROCm's
// visibility variables, without either library. Used by LinuxMachine. Pure.
#pragma once

#include "base/environ.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// What the kernel's files say of one; each may be empty.
struct Gpu {
  std::string address{};  // PCI: "0000:07:00.0"
  std::string uuid{};     // "GPU-8932f937-…"
  std::string model{};    // "NVIDIA H100 80GB HBM3"
  bool operator==(const Gpu&) const = default;
};

// What the kernel's files show, before any variable, in the order of PCI addresses.
struct GpuDevices {
  std::vector<Gpu> nvidia{};
  std::vector<Gpu> amd{};
  bool is_hidden = false;  // Windows' subsystem for Linux: only the driver's library knows them
  int mig_slices = 0;      // of the NVIDIA GPUs that are cut into slices
  int mig_gpus = 0;        // how many are
};

struct VisibleGpus {
  std::vector<Gpu> gpus;  // in the order in which a program numbers them
  std::string reason;     // "4 NVIDIA GPUs in /dev, 2 visible by CUDA_VISIBLE_DEVICES"
};

// The entries of a visibility list that are in force: integers as strtoul reads them, or unique
// prefixes of UUIDs; cut at the first invalid one, nothing at all if one is repeated.
[[nodiscard]] std::vector<Gpu> visible_among(const std::vector<Gpu>& present,
                                             std::string_view list);

[[nodiscard]] VisibleGpus visible_gpus(const GpuDevices& devices, const Environ& environ);

}  // namespace muster
