// SPDX-License-Identifier: Apache-2.0
#include "machine/gpu_count.hpp"

#include "base/plural.hpp"
#include "base/text.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

namespace muster {
namespace {

// The number at the start of an entry, as CUDA parses it: "1gpu2" yields 1. None if there is no
// number or it is negative.
std::optional<std::size_t> leading_number(std::string_view entry) {
  if (entry.starts_with('+')) {
    entry.remove_prefix(1);
  }
  std::size_t digits = 0;
  while (digits < entry.size() && '0' <= entry[digits] && entry[digits] <= '9') {
    ++digits;
  }
  const auto number = parse_int(entry.substr(0, digits));
  if (digits == 0 || !number || *number > 1'000'000) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(*number);
}

std::vector<Gpu> visible_by_number(const std::vector<Gpu>& present,
                                   const std::vector<std::string>& entries) {
  std::set<std::size_t> seen;
  std::vector<Gpu> out;
  bool absent = false;
  for (const std::string& entry : entries) {
    const auto number = leading_number(trim(entry));
    if (!number) {
      break;
    }
    if (!seen.insert(*number).second) {
      return {};
    }
    absent = absent || *number >= present.size();
    if (!absent) {
      out.push_back(present[*number]);
    }
  }
  return out;
}

// None unless exactly one UUID has this prefix.
std::optional<Gpu> gpu_of_uuid(const std::vector<Gpu>& present, const std::string& name) {
  const auto matches = [&](const Gpu& gpu) { return gpu.uuid.starts_with(name); };
  return std::ranges::count_if(present, matches) == 1
             ? std::optional(*std::ranges::find_if(present, matches))
             : std::nullopt;
}

std::vector<Gpu> visible_by_uuid(const std::vector<Gpu>& present,
                                 const std::vector<std::string>& entries) {
  const bool known = std::ranges::any_of(present, [](const Gpu& gpu) { return !gpu.uuid.empty(); });
  std::vector<Gpu> out;
  for (const std::string& entry : entries) {
    const std::string name(trim(entry));
    if (!name.starts_with("GPU-")) {
      break;
    }
    const auto gpu = known ? gpu_of_uuid(present, name) : std::optional(Gpu{.uuid = name});
    if (!gpu) {
      break;
    }
    if (std::ranges::find(out, gpu->uuid, &Gpu::uuid) != out.end()) {
      return {};
    }
    out.push_back(*gpu);
  }
  out.resize(std::min(out.size(), present.size()));
  return out;
}

// CUDA exposes only one slice to a process, however many are listed. Older slice names contain the
// GPU's UUID: "MIG-GPU-<uuid>/<instance>/<compute instance>".
std::vector<Gpu> visible_by_slice(const std::vector<Gpu>& present, std::string_view entry) {
  if (present.empty()) {
    return {};
  }
  entry.remove_prefix(std::string_view("MIG-").size());
  const bool older = entry.starts_with("GPU-");
  const auto gpu =
      older ? gpu_of_uuid(present, std::string(entry.substr(0, entry.find('/')))) : std::nullopt;
  return {gpu.value_or(present.size() == 1 ? present.front() : Gpu{})};
}

// Applies one visibility variable, if set, to the devices in `out` and names it in `out.reason`.
void apply(std::string_view name, const Environ& environ, VisibleGpus& out) {
  const auto list = environ.get(name);
  if (list && !out.gpus.empty()) {
    out.gpus = visible_among(out.gpus, *list);
    out.reason += fmt::format(", {} visible by {}", out.gpus.size(), name);
  }
}

// CUDA numbers the fastest GPU first, whereas the kernel numbers GPUs by PCI address. So if the
// models differ, a CUDA number does not identify a PCI address.
void forget_unsure_places(std::vector<Gpu>& gpus, const Environ& environ) {
  const auto other = [&](const Gpu& gpu) { return gpu.model != gpus.front().model; };
  if (environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID" && std::ranges::any_of(gpus, other)) {
    for (Gpu& gpu : gpus) {
      gpu.address.clear();
    }
  }
}

// If CUDA_VISIBLE_DEVICES is not set, CUDA uses only the first slice that it finds.
void see_one_slice(const GpuDevices& devices, VisibleGpus& out) {
  if (devices.mig_slices > 0 && devices.mig_gpus == static_cast<int>(devices.nvidia.size())) {
    out.gpus.resize(1);
    out.reason += fmt::format(
        ", partitioned into {} MIG slices (a process can use only one; --virtual-local-rank "
        "gives each worker its own)",
        devices.mig_slices);
  }
}

VisibleGpus visible_nvidia(const GpuDevices& devices, const Environ& environ) {
  VisibleGpus out{devices.nvidia,
                  fmt::format("{} {}",
                              counted(devices.nvidia.size(), "NVIDIA GPU"),
                              devices.is_hidden ? "by nvidia-smi" : "in /dev")};
  if (!environ.get("CUDA_VISIBLE_DEVICES")) {
    see_one_slice(devices, out);
  }
  if (!environ.get("CUDA_VISIBLE_DEVICES").value_or("").starts_with("GPU-")) {
    forget_unsure_places(out.gpus, environ);
  }
  apply("CUDA_VISIBLE_DEVICES", environ, out);
  return out;
}

VisibleGpus visible_amd(const GpuDevices& devices, const Environ& environ) {
  VisibleGpus out{devices.amd, counted(devices.amd.size(), "AMD GPU") + " in /sys/class/kfd"};
  apply("ROCR_VISIBLE_DEVICES", environ, out);
  // HIP_VISIBLE_DEVICES, or its alias CUDA_VISIBLE_DEVICES, applies to the devices selected by
  // ROCR_VISIBLE_DEVICES.
  const bool hip = environ.get("HIP_VISIBLE_DEVICES").has_value();
  apply(hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", environ, out);
  return out;
}

}  // namespace

std::vector<Gpu> visible_among(const std::vector<Gpu>& present, std::string_view list) {
  const auto entries = split(list, ',');
  const std::string_view first = trim(entries.front());
  if (first.starts_with("GPU-")) {
    return visible_by_uuid(present, entries);
  }
  if (first.starts_with("MIG-")) {
    return visible_by_slice(present, first);
  }
  return visible_by_number(present, entries);
}

VisibleGpus visible_gpus(const GpuDevices& devices, const Environ& environ) {
  if (!devices.nvidia.empty()) {
    return visible_nvidia(devices, environ);
  }
  if (!devices.amd.empty()) {
    return visible_amd(devices, environ);
  }
  return {{}, "no GPU in /dev/nvidia* or /sys/class/kfd"};
}

}  // namespace muster
