// SPDX-License-Identifier: Apache-2.0
// The GPUs that a program with this environment would see, according to the visibility variables of
// CUDA and ROCm. Does not load their libraries. Used by LinuxMachine. Pure.
#pragma once

#include "base/environ.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// A GPU as described by the kernel's files; each field may be empty.
struct Gpu {
  std::string address{};  // PCI: "0000:07:00.0"
  std::string uuid{};     // "GPU-8932f937-…"
  std::string model{};    // "NVIDIA H100 80GB HBM3"
  bool operator==(const Gpu&) const = default;
};

// The devices that the kernel lists, in the order of their PCI addresses, before any visibility
// variable is applied.
struct GpuDevices {
  std::vector<Gpu> nvidia{};
  std::vector<Gpu> amd{};
  bool is_hidden = false;  // on WSL: only the driver's library can list the GPUs
  int mig_slices = 0;      // total on all partitioned NVIDIA GPUs
  int mig_gpus = 0;        // number of partitioned GPUs
};

struct VisibleGpus {
  std::vector<Gpu> gpus;  // in the order in which programs number them
  std::string reason;     // "4 NVIDIA GPUs in /dev, 2 visible by CUDA_VISIBLE_DEVICES"
};

// The valid entries of a visibility list: integers as parsed by strtoul, or unique prefixes of
// UUIDs. The list stops at the first invalid entry and is empty if an entry is repeated.
[[nodiscard]] std::vector<Gpu> visible_among(const std::vector<Gpu>& present,
                                             std::string_view list);

[[nodiscard]] VisibleGpus visible_gpus(const GpuDevices& devices, const Environ& environ);

}  // namespace muster
